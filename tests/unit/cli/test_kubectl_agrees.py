"""Manifests are read as the real kubectl reads them (`annotate --local` needs no cluster)."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.paths import own_kubectl
from schedclass.cli import manifests
from schedclass.cli.problems import InputError

MARK = "read-by"


def by_kubectl(folder: Path, text: str) -> list[Any] | None:
    """What kubectl makes of a file; None if it refuses it."""
    file = folder / "manifest.yaml"
    file.write_bytes(text.encode())
    done = subprocess.run(
        [own_kubectl(), "annotate", "--local", "-f", str(file), f"{MARK}=kubectl", "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
        env={"HOME": str(folder), "PATH": os.defpath},
    )
    if done.returncode:
        return None
    found, position = [], 0
    while position < len(done.stdout.rstrip()):
        value, position = json.JSONDecoder().raw_decode(done.stdout, position)
        position += len(done.stdout[position:]) - len(done.stdout[position:].lstrip())
        found.append(value)
    return [normal(value) for value in found]


def by_us(folder: Path, text: str) -> list[Any] | None:
    file = folder / "manifest.yaml"
    file.write_bytes(text.encode())
    try:
        found = [
            m.obj for m in manifests.read_all([str(file)], recursive=False, say=lambda _: None)
        ]
    except InputError:
        return None
    # Anchors share objects, which must not share the mark.
    copies: list[Any] = [json.loads(json.dumps(obj)) for obj in found]
    for obj in copies:
        metadata = obj["metadata"]
        metadata["annotations"] = {**(metadata.get("annotations") or {}), MARK: "kubectl"}
    return [normal(obj) for obj in copies]


def normal(value: Any) -> Any:
    """Tells booleans from numbers, and does not tell 1 from 1.0, which JSON does not either."""
    if isinstance(value, dict):
        return {key: normal(member) for key, member in value.items()}
    if isinstance(value, list):
        return [normal(member) for member in value]
    if isinstance(value, bool) or value is None:
        return f"<{value}>"
    return float(value) if isinstance(value, int | float) else value


def config_map(data: str, name: str = "x") -> str:
    body = "\n".join(f"  {line}" for line in data.splitlines())
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n{body}\n"


WORDS = """
12:30 1:2:3 2020-01-01 2001-12-14t21:59:43.10-05:00 1e3 1E3 1e+3 1.e3 .5 5. -.5 +.5 +1 -1 +0 -0
y Y yes n N no on On off OFF true True TRUE false null Null ~ nUll yES 010 0o10 0O10 08 09.5 0x1F
0X1f -0x1F +0x1F 0b101 0B11 -0b11 0b2 1_000 1__0 _1 1_ 0x_1 0. . - .. +.
9223372036854775807 9223372036854775808 18446744073709551615 18446744073709551616
-9223372036854775808 -9223372036854775809 123456789012345678901234567890 1e400 -1e400 1e21 1e20
1.0 1.10 100000000000000000000.0 0.1e-7 1e-400 00 007 0_7 0e0 -0.0 0x 0b 0o += << <<x = !
"""


BLOCK = [word for word in WORDS.split() if word != "-"]
FLOW = [word for word in WORDS.split() if word != "!"]


@pytest.mark.parametrize("words", [BLOCK, FLOW], ids=["in a block", "in a flow"])
def test_each_scalar_means_what_it_means_to_kubectl(words: list[str], tmp_path: Path) -> None:
    lines = [f"k{i}: {word}" for i, word in enumerate(words)]
    text = config_map("\n".join(lines) if words is BLOCK else f"all: {{{', '.join(lines)}}}")
    assert (theirs := by_kubectl(tmp_path, text)) is not None
    assert by_us(tmp_path, text) == theirs


@pytest.mark.parametrize("word", [".inf", "-.Inf", ".nan", "%x", "@x", "`x", "-"])
def test_what_kubectl_refuses_as_a_value_is_refused(word: str, tmp_path: Path) -> None:
    text = config_map(f"value: {word}")
    assert by_us(tmp_path, text) is by_kubectl(tmp_path, text) is None


NUMBERS = st.from_regex(r"[+-]?0?[xXbBoO]?[0-9a-fA-F_]{1,6}\.?[0-9_]{0,3}([eE][+-]?[0-9]{1,2})?")
SCALARS = st.one_of(
    NUMBERS,
    st.sampled_from(BLOCK),
    st.text(alphabet="yYnNoOtTfFeE0189.:+-_~xb", min_size=1, max_size=6),
)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(words=st.lists(SCALARS, min_size=30, max_size=60))
def test_generated_scalars_mean_what_they_mean_to_kubectl(words: list[str], tmp_path: Path) -> None:
    usable = [word for word in words if word.strip() == word and readable(word)]
    text = config_map("\n".join(f"k{i}: {word}" for i, word in enumerate(usable)) or "a: b")
    assert by_us(tmp_path, text) == by_kubectl(tmp_path, text)


def readable(word: str) -> bool:
    """Leaves out what is no plain scalar, and infinities, which fail a whole file."""
    try:
        token = yaml.compose(f"k: {word}\n")
    except yaml.YAMLError:
        return False
    assert isinstance(token, yaml.MappingNode)
    value = token.value[0][1]
    return isinstance(value, yaml.ScalarNode) and "." + word.lstrip("+-.").lower() not in (
        ".inf",
        ".nan",
    )


@pytest.mark.parametrize(
    "key", ["1", "1.5", "010", "yes", '"yes"', "12:30", "~", "[a]", "0x10", "-1"]
)
def test_each_key_becomes_the_text_that_kubectl_makes_of_it(key: str, tmp_path: Path) -> None:
    text = config_map(f"{key}: a")
    assert by_us(tmp_path, text) == by_kubectl(tmp_path, text)


DOCUMENTS = {
    "anchors": config_map("a: &x {p: 1, q: [1, 2]}\nb: *x"),
    "a merge before keys": config_map("a: &x {p: 1}\nb:\n  <<: *x\n  p: 2"),
    "a merge after keys": config_map("a: &x {p: 1}\nb:\n  p: 2\n  <<: *x"),
    "a merge of several": config_map("a: &x {p: 1}\nb: &y {p: 2, q: 3}\nc:\n  <<: [*x, *y]"),
    "a merge of a scalar": config_map("b:\n  <<: 1"),
    "a quoted merge key": config_map('a: &x {p: 1}\nb:\n  "<<": *x'),
    "an anchor that is set anew": config_map("a: &x 1\nb: *x\nc: &x 2\nd: *x"),
    "an unknown anchor": config_map("b: *x"),
    "a repeated key": config_map("a: 1\na: 2"),
    "tags": config_map('a: !!str 12\nb: !!int "12"\nc: !!float 3\nd: !foo bar\ne: !!binary aGk='),
    "a wrong tag": config_map("a: !!int b"),
    "texts": config_map("a: |\n  x\n  y\nb: >-\n  x\n  y\nc: 'it''s'\nd: \"\\u00e4\\n\""),
    "comments": "# first\n" + config_map("a: b # c\n# d"),
    "several": config_map("a: b", "x") + "---\n" + config_map("a: b", "z"),
    "empty documents": "---\n---\n" + config_map("a: b") + "---\n# nothing\n---\n",
    "a separator with a comment": config_map("a: b") + "--- # next\n" + config_map("a: b", "z"),
    "a separator with text": "--- {}\n",
    "no end of line": config_map("a: b").rstrip(),
    "Windows line ends": config_map("a: |\n  x\n  y\nb: c").replace("\n", "\r\n"),
    "two of Windows": (config_map("a: b") + "---\n" + config_map("a: b", "z")).replace(
        "\n", "\r\n"
    ),
    "JSON": json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}),
    "flow style": "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {a: yes}}",
    "a List": "apiVersion: v1\nkind: List\nitems:\n- " + config_map("a: b").replace("\n", "\n  "),
    "JSON and YAML": json.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    )
    + "\n---\n"
    + config_map("a: b", "z"),
    "a tab": config_map("a:\tb"),
    "a tab that indents": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n\tname: x\n",
    "an open quote": config_map('a: "b'),
    "no kind": "apiVersion: v1\nmetadata: {name: x}\n",
    "a byte order mark": "\ufeff" + config_map("a: b"),
    "a directive": "%YAML 1.1\n---\n" + config_map("a: b"),
    "text beyond ASCII": config_map("a: größe\nb: 日本"),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_document_is_read_or_refused_as_kubectl_does(name: str, tmp_path: Path) -> None:
    assert by_us(tmp_path, DOCUMENTS[name]) == by_kubectl(tmp_path, DOCUMENTS[name])
