"""How the browser of these tests is found, or installed."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.browser import chromium
from tests.browser.chromium import NoBrowser


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An otherwise empty PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(chromium.VARIABLE, raising=False)
    return tmp_path


def put(folder: Path, name: str) -> str:
    program = folder / name
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return str(program)


def never(command: Sequence[str]) -> int:
    raise AssertionError(f"{command} should not be run")


def ensure(*, root: bool, run: chromium.Run = never) -> str:
    return chromium.ensure(root, run, say=lambda _: None)


@pytest.mark.parametrize("name", ["chromium", "google-chrome"])
def test_an_installed_browser_is_used(programs: Path, name: str) -> None:
    program = put(programs, name)
    assert ensure(root=True) == program


def test_the_named_browser_comes_first(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(programs, "chromium")
    monkeypatch.setenv(chromium.VARIABLE, put(programs, "mine"))
    assert ensure(root=True) == str(programs / "mine")


def test_a_named_browser_that_is_not_there_is_not_replaced_by_another(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(programs, "chromium")
    monkeypatch.setenv(chromium.VARIABLE, "/nowhere/chrome")
    with pytest.raises(NoBrowser, match="is /nowhere/chrome, which is no program"):
        ensure(root=True)


def test_root_gets_debian_s_package_after_an_update(programs: Path) -> None:
    put(programs, "apt-get")
    commands: list[str] = []

    def run(command: Sequence[str]) -> int:
        commands.append(command[1])
        if command[1] == "install":
            put(programs, command[-1])
        return 0

    assert ensure(root=True, run=run) == str(programs / "chromium")
    assert commands == ["update", "install"]


@pytest.mark.parametrize(
    ("apt", "root", "sentence"),
    [
        (True, False, "only root may install one"),
        (False, True, "there is no Chromium or Chrome on PATH: install chromium, or name"),
        (True, True, "`apt-get update -qq` ended with 100: install chromium, or name"),
    ],
)
def test_where_none_can_be_had_one_sentence_says_so(
    programs: Path, apt: bool, root: bool, sentence: str
) -> None:
    if apt:
        put(programs, "apt-get")
    with pytest.raises(NoBrowser, match=sentence) as caught:
        ensure(root=root, run=lambda _: 100)
    assert len(str(caught.value).splitlines()) == 1
