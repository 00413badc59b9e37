"""`schedclass report`: the page as text, and the file it is put in. How it looks: tests/browser."""

import json
import os
import re
import stat
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedclass.domain import names
from schedclass.domain.insight.report import Limits, report
from schedclass.domain.insight.report_tree import report_tree
from schedclass.domain.insight.snapshot import NamespaceRecord, Part, Snapshot
from schedclass.domain.insight.world import Policy, World
from schedclass.domain.namespaces import Namespace, Owner
from tests.treetest import namespaces
from tests.unit.cli.running import NODES, SCENARIOS, expect_golden, manifests, schedclass

TENANTS = str(SCENARIOS.parent / "snapshots" / "bad-day.yaml")
GIVEN = ("-f", NODES, "-f", TENANTS)
VOID = {"meta", "link", "input", "br"}


class Page(HTMLParser):
    """What a page holds, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.texts))


def page_of(*arguments: str, stdin: str = "") -> Page:
    done = schedclass("report", "-o", "-", *arguments, stdin=stdin)
    assert done.code == 0, done.err
    page = Page(done.out)
    assert page.open == []
    return page


def test_the_page_is_as_it_was_read_and_approved() -> None:
    done = schedclass("report", "-o", "-", *GIVEN)
    assert (done.code, done.err) == (0, "")
    stable = done.out.replace(NODES, "nodes.yaml").replace(TENANTS, "day.yaml")
    content = re.sub(r"(?s)(?<=<style>).*?(?=</style>)|(?<=<script>).*?(?=</script>)", "", stable)
    expect_golden("report.html", re.sub(r"sha256-[^&]*", "sha256-", content))


def test_the_same_input_gives_the_same_page() -> None:
    assert page_of(*GIVEN).elements == page_of(*GIVEN).elements
    assert (
        schedclass("report", "-o", "-", *GIVEN).out == schedclass("report", "-o", "-", *GIVEN).out
    )


@pytest.mark.parametrize(
    ("as_of", "shown"),
    [
        ("2026-05-01T12:00Z", "as of 2026-05-01 12:00 UTC"),
        ("2026-05-01T12:00+02:00", "as of 2026-05-01 12:00 UTC+02:00"),
        ("2026-05-01", "as of 2026-05-01 00:00 UTC"),
        ("none", None),
        ("", None),
    ],
)
def test_the_date_is_the_one_that_is_given(as_of: str, shown: str | None) -> None:
    text = page_of(*GIVEN, "--as-of", as_of).text
    assert (shown or "as of") in text if shown else "as of" not in text


HOSTILE = (
    "<script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "\u202egnp.exe",
    "a\x00b\x1b[31m",
    "\ud800",
)


def hostile_manifests(evil: str) -> str:
    """Every place that a page shows, filled with one text."""
    labels = {"topology.kubernetes.io/zone": evil, "topology.kubernetes.io/region": evil}
    objects: tuple[dict[str, Any], ...] = (
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": evil, "labels": labels},
            "spec": {"taints": [{"key": evil, "value": evil, "effect": evil}]},
        },
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": evil, "uid": "1", "labels": {names.CLASS_KEY: evil}},
        },
        {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {"name": evil},
            "spec": {"nodeSelector": {"zone": "elsewhere", "other": "b"}},
        },
        {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {"name": "invalid"},
            "spec": {"nodeSelector": {evil: evil}},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": evil, "namespace": evil, "uid": "2"},
            "spec": {"schedulerName": evil, "nodeName": evil, "containers": []},
        },
    )
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


@pytest.mark.parametrize("evil", HOSTILE, ids=ascii)
def test_no_name_label_or_message_becomes_markup(evil: str, tmp_path: Path) -> None:
    source = tmp_path / "hostile.json"
    source.write_text(hostile_manifests(evil), encoding="utf-8")
    harmless = tmp_path / "harmless.json"
    harmless.write_text(hostile_manifests("harmless"), encoding="utf-8")
    found, expected = page_of("-f", str(source)), page_of("-f", str(harmless))
    # Names differ, the elements do not: neither their kinds nor what they carry.
    assert {tag for tag, _ in found.elements} == {tag for tag, _ in expected.elements}
    assert {key for _, at in found.elements for key in at} == {
        key for _, at in expected.elements for key in at
    }
    for tag, attributes in found.elements:
        assert not any(key.startswith("on") or key == "style" for key in attributes), tag
        assert all(
            (attributes.get(key) or "#").startswith(("#", "data:,")) for key in ("href", "src")
        )
    text = page_of("-f", str(source)).text
    assert not any(character in text for character in "\u202e\x00\x1b\ud800")


def test_a_text_of_any_length_is_cut_and_says_so() -> None:
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "tenant-a", "labels": {names.CLASS_KEY: "x" * 5000}},
    }
    page = page_of("-f", "-", stdin=manifests(namespace))
    assert "… (4,400 more characters)" in page.text
    assert "x" * 601 not in page.text


def test_nothing_can_be_asked_of_a_server_and_only_our_script_runs() -> None:
    page = page_of(*GIVEN)
    (policy,) = [
        at["content"]
        for _, at in page.elements
        if at.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for kind in ("style-src", "script-src"):
        assert re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", rules[kind])
    assert [at for tag, at in page.elements if tag in ("script", "style")] == [{}, {}]


def test_what_was_not_given_is_said() -> None:
    text = page_of("-f", TENANTS).text
    assert "Nodes are not all known: no nodes among the manifests" in text
    assert "Not judged: nodes are not known" in text
    assert "1 namespace not in the tree: excluded, or without a class and alone" in text


def world_of(members: list[Namespace]) -> World:
    records = tuple(map(NamespaceRecord, members))
    return World(Snapshot(namespaces=records, unknown={Part.CLASSES: "not asked"}), Policy())


def test_what_is_left_out_is_counted() -> None:
    members = namespaces("; ".join(f"a > c{i}" for i in range(30)) + "; a=dc; z=dc; kube-system")
    world = world_of(members)
    tree = report(world, Limits(namespaces=12)).tree
    assert (tree.shown, tree.left_out, tree.outside) == (2, 30, 1)
    assert tree.shown + tree.left_out + tree.outside == len(members)
    cut = report(world, Limits(namespaces=1, violations=1)).tree
    assert (cut.shown, cut.left_out) == (1, 31)


def test_siblings_that_are_alike_lie_in_one_fold() -> None:
    members = namespaces("a=dc; " + "; ".join(f"a > c{i}" for i in range(12)) + "; a > d > e")
    lines = report(world_of(members)).tree.lines
    told = [(line.depth, line.row.name if line.row else line.below) for line in lines]
    assert told[:5] == [(0, "a"), (1, "d"), (2, "e"), (1, 12), (2, "c0")]
    assert len(told) == 4 + 12
    assert sum(line.opens for line in lines) == sum(line.ends for line in lines)


def test_a_chain_deeper_than_a_browser_nests_is_cut() -> None:
    members = namespaces("n0=dc > " + " > ".join(f"n{i}" for i in range(1, 1500)))
    tree = report(world_of(members)).tree
    assert (tree.shown, tree.left_out, tree.outside) == (64, 1436, 0)
    assert tree.lines[-1].row is not None
    assert tree.lines[-1].row.folded == 1436


@given(
    st.lists(st.tuples(st.integers(0, 15), st.sampled_from([None, "dc", "other"])), max_size=16),
    st.integers(1, 20),
    st.integers(1, 4),
    st.integers(0, 3),
)
def test_every_namespace_is_shown_or_counted(
    members: list[tuple[int, str | None]], limit: int, depth: int, alike: int
) -> None:
    tree = report_tree(
        world_of(
            [
                Namespace(f"n{i}", uid=f"n{i}", label=label, owners=(Owner(f"n{up}", f"n{up}"),))
                for i, (up, label) in enumerate(members)
            ]
        ),
        limit=limit,
        depth=depth,
        alike=alike,
    )
    shown = [line.row.name for line in tree.lines if line.row is not None]
    assert len(shown) == len(set(shown)) == tree.shown <= limit
    assert tree.shown + tree.left_out + tree.outside == len(members)
    level = 0
    for line in tree.lines:  # as the page nests them
        assert line.depth == level
        level += line.opens - line.ends
    assert level == 0


def test_a_class_tells_its_reach() -> None:
    found = World(Snapshot(), Policy())
    assert report(found).classes == ()
    text = page_of(*GIVEN).text
    assert "Namespaces 3" in text
    assert "2 of 3" in text
    assert "Wished for, overridden, in tenant-a-b" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("-o", "{tmp}"), "is no file; name one, or - for standard output"),
        (("-o", ""), "is no file"),
        (("-o", "{tmp}/nowhere/page.html"), "there is no folder {tmp}/nowhere"),
        (("-o", "{tmp}/page.html", "--as-of", "soon"), "'soon' is no date; write 2026-05-01"),
        (("-o", "/proc/version"), "/proc/version cannot be written: "),
    ],
)
def test_a_page_that_cannot_be_written_ends_with_two_and_one_sentence(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    done = schedclass("report", *(part.format(tmp=tmp_path) for part in arguments), *GIVEN)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("error: ")
    assert sentence.format(tmp=tmp_path) in line
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_needed() -> None:
    done = schedclass("report", *GIVEN)
    assert done.code == 2
    assert "--output" in done.err


def test_an_existing_page_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    page, link = tmp_path / "page.html", tmp_path / "latest.html"
    page.write_text("old")
    page.chmod(0o640)
    link.symlink_to(page)
    with page.open() as reader:  # who reads the old one goes on reading the old one
        assert schedclass("report", "-o", link, *GIVEN).code == 0
        assert reader.read() == "old"
    assert link.is_symlink()
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert stat.S_IMODE(page.stat().st_mode) == 0o640
    assert sorted(tmp_path.iterdir()) == [link, page]


def test_a_new_page_is_as_readable_as_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("")
    assert schedclass("report", "-o", tmp_path / "page.html", *GIVEN).code == 0
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert schedclass("report", "-o", pipe, *GIVEN).code == 0
        assert os.read(reader, 15) == b"<!DOCTYPE html>"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_full_disk_leaves_the_old_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.html"
    page.write_text("old")

    def no_space(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", no_space)
    done = schedclass("report", "-o", page, *GIVEN)
    assert done.code == 2
    assert "No space left on device" in done.err
    assert page.read_text() == "old"
    assert list(tmp_path.iterdir()) == [page]
