"""Ports of control planes that start at the same moment."""

from pathlib import Path

from controlplane.ports import allocate

NAMES = [f"program-{number}" for number in range(300)]


def test_two_run_folders_never_get_the_same_port(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    ports = [set(allocate(NAMES, folder).values()) for folder in (first, second)]
    assert len(ports[0]) == len(ports[1]) == len(NAMES)
    assert not ports[0] & ports[1]
