"""How a command ends: one sentence and a code, of which 1 means only that there is work to do."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml

from schedclass.cli import commands
from schedclass.cli.main import main
from tests.unit.cli.running import NODES, schedclass

PROGRAM = Path(sys.executable).with_name("schedclass")
LONG = "a" * 5000


def tenants(number: int) -> str:
    named = (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"tenant-n{i}", "uid": "u"}}
        for i in range(number)
    )
    return "\n".join(map(json.dumps, named))


def ended(*arguments: str | Path, text: str, out: Any) -> tuple[int, str]:
    """Exit code and standard error of a process of its own."""
    done = subprocess.run(
        [PROGRAM, *arguments],
        input=text,
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"},
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("number", [1, 1000], ids=["held until the end", "written on the way"])
@pytest.mark.parametrize("more", [(), ("-o", "json")], ids=["table", "json"])
def test_an_output_that_takes_nothing_is_told(number: int, more: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        code, said = ended("tree", "--all", "-f", "-", *more, text=tenants(number), out=full)
    assert code == 2
    assert said.splitlines()[-1] == "error: cannot read or write: No space left on device"
    assert "Traceback" not in said
    assert "Exception" not in said


def test_the_code_tells_even_where_no_error_can_be_written() -> None:
    for closed in ("2>/dev/full", "2>&-", ">&-"):
        command = f'"$0" usage nothing -f "$1" {closed}'
        done = subprocess.run(["/bin/sh", "-c", command, PROGRAM, NODES], check=False)
        assert done.returncode == 2, closed


def test_a_reader_that_has_seen_enough_is_no_fault() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        code, said = ended("tree", "--all", "-f", "-", text=tenants(1), out=closed)
    assert code == 0
    assert "rror" not in said


@pytest.mark.parametrize(
    "arguments",
    [
        ("tree", "-f", LONG),
        ("check", "-f", f"{LONG}/x.yaml"),
        ("simulate", "-f", NODES, "--change", LONG),
        ("report", "-f", NODES, "-o", LONG),
        ("report", "-f", NODES, "-o", f"{LONG}/page.html"),
    ],
    ids=lambda a: a[0],
)
def test_a_path_that_is_too_long_is_told_in_one_sentence(arguments: tuple[str, ...]) -> None:
    done = schedclass(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith(": File name too long\n")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("opening", ['{"a":', "["], ids=["objects", "lists"])
@pytest.mark.parametrize("deep", [202, 990, 100_000])
def test_what_lies_too_deep_is_told_with_its_line(opening: str, deep: int) -> None:
    closing = "}" if opening[0] == "{" else "]"
    text = tenants(2) + '\n\n{"kind": ' + opening * deep + "1" + closing * deep + "}"
    done = schedclass("tree", "-f", "-", stdin=text)
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: -:4: collections lie more than 200 deep\n"


def test_what_lies_as_deep_as_yaml_may_is_read() -> None:
    obj = {"apiVersion": "v1", "kind": "Odd", "deep": json.loads("[" * 199 + "]" * 199)}
    assert schedclass("tree", "-f", "-", stdin=json.dumps(obj)).code == 0
    assert schedclass("tree", "-f", "-", stdin=yaml.safe_dump(obj)).code == 0


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("a\\ud800", "a\ufffd"),
        ("\\udc00\\ud800b", "\ufffd\ufffdb"),
        ("\\ud83d\\ude00", "\U0001f600"),
        ("\\uD83D\\uDE00\\uDE00", "\U0001f600\ufffd"),
    ],
)
def test_half_a_character_is_read_as_go_reads_it(written: str, read: str, output: str) -> None:
    text = tenants(1).replace("tenant-n0", written)
    done = schedclass("tree", "--all", "-f", "-", "-o", output, stdin=text)
    assert done.code == 0
    assert done.out.encode()
    assert ("half a character" in done.err) == ("\ufffd" in read)
    if output == "table":
        assert read in done.out
    else:
        (row,) = yaml.safe_load(done.out)["namespaces"]
        assert row["name"] == read


def test_a_backslash_before_such_digits_is_a_backslash() -> None:
    done = schedclass("tree", "--all", "-f", "-", stdin=tenants(1).replace("-n0", "\\\\ud800"))
    assert "tenant\\ud800" in done.out
    assert "half" not in done.err


def test_the_name_of_a_file_need_not_be_text(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.json")
    path.write_text(tenants(1), encoding="utf-8")
    for output in ("json", "yaml"):
        done = schedclass("tree", "-f", path, "-o", output)
        assert done.out.encode()
        assert "\\udcff" in done.out.lower()
    assert json.loads(schedclass("tree", "-f", path, "-o", "json").out)["source"].endswith(
        str(path)
    )


def test_where_there_is_no_utf_8_the_lines_of_a_tree_are_written_out() -> None:
    with mock.patch.dict(os.environ, {"PYTHONIOENCODING": "ascii"}):
        text = tenants(1) + "\n" + tenants(1).replace("tenant-n0", "tenant-root")
        code, said = ended("tree", "--all", "-f", "-", text=text, out=subprocess.DEVNULL)
    assert (code, "rror" in said) == (0, False)


@pytest.mark.parametrize(
    "unforeseen",
    [ValueError("a\nb"), RecursionError("deep"), MemoryError(), OSError(5, "Input/output error")],
    ids=lambda error: type(error).__name__,
)
def test_what_nobody_foresaw_is_one_sentence_and_two(
    unforeseen: Exception, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "load_world", mock.Mock(side_effect=unforeseen))
    monkeypatch.setattr(sys, "argv", ["schedclass", "check", "-f", NODES])
    with pytest.raises(SystemExit) as end:
        main()
    said = capsys.readouterr()
    assert (end.value.code, said.out) == (2, "")
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    expected = unforeseen.strerror if isinstance(unforeseen, OSError) else type(unforeseen).__name__
    assert str(expected) in said.err
