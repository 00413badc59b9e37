"""Ports of control planes that start at the same moment."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from controlplane import ports
from controlplane.ports import allocate

NAMES = [f"program-{number}" for number in range(300)]


def test_two_run_folders_never_get_the_same_port(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    found = [set(allocate(NAMES, folder).values()) for folder in (first, second)]
    assert len(found[0]) == len(found[1]) == len(NAMES)
    assert not found[0] & found[1]


def _allocate(folder: str) -> list[int]:
    return list(allocate([f"port-{number}" for number in range(40)], Path(folder)).values())


def test_of_many_that_find_claims_without_a_folder_each_takes_others_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = tmp_path / "claims"
    claims.mkdir()
    monkeypatch.setattr(ports, "_CLAIMS", claims)
    monkeypatch.setattr(ports, "_FIRST", 31_700)
    for port in range(31_700, 32_768):
        (claims / str(port)).write_text(str(tmp_path / "gone"), encoding="utf-8")
    folders = [tmp_path / f"run-{number}" for number in range(8)]
    for folder in folders:
        folder.mkdir()
    # Forked, so that all see what is set here.
    with ProcessPoolExecutor(8, mp_context=get_context("fork")) as pool:
        found = [port for taken in pool.map(_allocate, map(str, folders)) for port in taken]
    assert len(set(found)) == len(found) == 8 * 40
