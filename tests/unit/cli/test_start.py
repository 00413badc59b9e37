"""Help and completion answer at once, because nothing that takes time is loaded for them."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(sys.executable).parent
# Typer itself loads pydantic for the help of one command.
SLOW = (
    "kubernetes",
    "aiohttp",
    "rich.",
    "yaml",
    "jinja2",
    "schedclass.domain",
    "schedclass.kube",
)


def loaded_by(*arguments: str) -> set[str]:
    code = (
        "import sys; from schedclass.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "sys.stderr.write('\\n'.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    assert "Usage:" in done.stdout
    return set(done.stderr.splitlines())


@pytest.mark.parametrize(
    "arguments", [("--help",), ("tree", "--help"), ("simulate", "-h"), ("report", "-h")]
)
def test_help_loads_nothing_that_takes_time(arguments: tuple[str, ...]) -> None:
    loaded = loaded_by(*arguments)
    assert [name for name in loaded if name.startswith(SLOW)] == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("",), ["tree", "check", "explain", "simulate", "usage", "report", ":4"]),
        (("ex",), ["explain", ":4"]),
        (("tree", "--ku"), ["--kubeconfig", ":4"]),
        (("tree", "-o", "j"), ["json", ":4"]),
        (("explain", "na"), ["namespace", ":4"]),
        (("check", "-f", ""), [":0"]),
    ],
)
def test_kubectl_is_given_candidates_to_complete(
    words: tuple[str, ...], expected: list[str]
) -> None:
    done = subprocess.run(
        [HERE / "kubectl_complete-schedclass", *words], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == expected


@pytest.mark.parametrize("program", ["schedclass", "kubectl-schedclass"])
def test_both_names_are_installed(program: str) -> None:
    done = subprocess.run([HERE / program, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("schedclass ")
