"""Text that was made to steer a terminal, in every place that is shown (CVE-2021-25743)."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from schedclass.cli import explaining, screen
from schedclass.cli.options import Common
from schedclass.cli.screen import Screen, tell
from schedclass.cli.show_explain import show_pod
from schedclass.cli.source import load_world
from schedclass.domain import names
from schedclass.domain.insight.explain_pod import explain_pod
from schedclass.domain.insight.snapshot import Part
from schedclass.domain.text import visible
from tests.unit.cli.running import NODES, Done, schedclass

EVIL = "x\x1b[2J\x1b]52;c;eA==\x07\r\x00\x7f\x9b31m\u202e\u2028\x85\nFORGED: all is well\n"
SGR = re.compile(r"\x1b\[[\d;]*m")


def named(kind: str, name: str, version: str = "v1", **more: Any) -> dict[str, Any]:
    metadata = {
        "name": name,
        "labels": {names.CLASS_KEY: EVIL, EVIL: EVIL},
        "annotations": {names.INHERITED_FROM: EVIL, names.REQUESTED_CLASS: EVIL},
        **more.pop("metadata", {}),
    }
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def of_pods() -> dict[str, Any]:
    return {
        "nodeSelector": {EVIL: EVIL},
        "schedulerName": EVIL,
        "tolerations": [{"key": EVIL, "operator": "Equal", "value": EVIL, "effect": "NoSchedule"}],
        "containers": [{"name": EVIL, "image": EVIL}],
        EVIL: EVIL,
    }


def cluster() -> list[dict[str, Any]]:
    """Objects of each kind that is read, with such text wherever text is allowed."""
    lineage = dict.fromkeys(names.LINEAGE_LABELS, EVIL)
    within = {"namespace": EVIL, "labels": lineage}
    waits = {"type": "PodScheduled", "status": "False", "reason": EVIL, "message": EVIL}
    broken = {"type": EVIL, "status": EVIL, "reason": EVIL, "message": EVIL}
    taint = {"key": EVIL, "value": EVIL, "effect": "NoSchedule"}
    bad_spec = {"nodeSelector": {EVIL: EVIL}, EVIL: EVIL, "nodeAffinity": EVIL}
    wanted = {"replicas": 1, "template": {"metadata": {"labels": lineage}, "spec": of_pods()}}
    return [
        named("Node", EVIL, spec={"taints": [taint]}, status={"conditions": [broken]}),
        named("Node", "plain"),
        named("Namespace", EVIL, metadata={"uid": "u1"}),
        named("Namespace", f"{EVIL}-b", metadata={"uid": "u2", EVIL: EVIL}),
        named(names.KIND, EVIL, names.API_VERSION, spec=bad_spec, status={"conditions": [broken]}),
        named("Tenant", EVIL, names.TENANT_API_VERSION, spec={"schedulingClass": EVIL, EVIL: 1}),
        named("Pod", EVIL, metadata={**within, "uid": "p1"}, spec={"nodeName": EVIL, **of_pods()}),
        named(
            "Pod",
            f"{EVIL}2",
            metadata={**within, "uid": "p2"},
            spec=of_pods(),
            status={"phase": "Pending", "conditions": [waits]},
        ),
        named("Deployment", EVIL, "apps/v1", metadata=within, spec=wanted),
        named("Deployment", EVIL, "apps/v1", metadata=within, spec=wanted),  # a duplicate
        named(f"Odd{EVIL}", EVIL, f"v1{EVIL}"),
        named("namespace", EVIL),  # of no kind
    ]


def broken() -> list[tuple[str, Any]]:
    """What cannot be read, with what each is about."""
    pod: dict[str, Any] = {"containers": []}
    return [
        ("name", named("Pod", EVIL, spec={**pod, "nodeName": 3})),
        ("kind", {"apiVersion": "v1", "kind": EVIL}),
        ("version", {"kind": EVIL}),
        ("labels", named("Node", EVIL, metadata={"labels": EVIL})),
        ("template", named("Deployment", EVIL, "apps/v1", spec={"template": {EVIL: EVIL}})),
        ("replicas", named("Job", EVIL, "batch/v1", spec={"parallelism": EVIL})),
        ("priority", named("PriorityClass", EVIL, "scheduling.k8s.io/v1", value=EVIL)),
        ("two pods", {"apiVersion": "v1", "kind": "List", "items": [named("Pod", EVIL)] * 2}),
        ("list", {"apiVersion": EVIL, "kind": f"{EVIL}List", "items": [None, EVIL]}),
        ("quantity", named("Pod", EVIL, spec={"overhead": {EVIL: EVIL}, **pod})),
    ]


def harmless(text: str) -> None:
    """Fails where a character steers a terminal, or a line stands that we did not begin."""
    bad = sorted({char for char in text if not char.isprintable() and char not in "\n\t"})
    assert bad == []
    assert not [line for line in text.split("\n") if line.lstrip().startswith("FORGED")]


def judged(done: Done) -> Done:
    harmless(done.out)
    harmless(done.err)
    return done


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A file that calls itself so, too."""
    path = tmp_path / f"{EVIL.replace(chr(0), '')[:60]}.json"
    path.write_text("\n".join(map(json.dumps, cluster())), encoding="utf-8")
    return path


COMMANDS: list[tuple[str, ...]] = [
    ("tree", "--all"),
    ("tree", EVIL),
    ("tree", "--class", EVIL),
    ("tree", "--class", f"{EVIL}?"),
    ("tree", "-n", f"{EVIL}?"),
    ("check",),
    ("check", "--strict", "-n", EVIL),
    ("usage", EVIL),
    ("usage", f"{EVIL}?"),
    ("explain", "ns", EVIL),
    ("explain", "ns", EVIL, f"{EVIL}?"),
    ("explain", "ns", f"{EVIL}-b"),
    ("explain", "class", EVIL),
    ("explain", "class", f"{EVIL}?"),
    ("explain", "pod", EVIL, "-n", EVIL),
    ("explain", "pod", f"{EVIL}2", "-n", EVIL),
    ("explain", "pod", f"{EVIL}?", "-n", EVIL),
    ("explain", "deployment", EVIL, "-n", EVIL),
    ("explain", "app", EVIL, "-n", EVIL),
    ("explain", EVIL, EVIL),
    ("explain", f"{EVIL}/{EVIL}"),
    ("simulate",),
    ("simulate", "--set-class", f"tenant-a={EVIL}"),
    ("simulate", "--set-class", EVIL),
    ("simulate", "--remove-node", EVIL),
    ("simulate", "--remove-node", f"{EVIL}?"),
    ("simulate", "--relabel", f"plain:a={EVIL}"),
    ("simulate", "--relabel", EVIL),
    ("simulate", "--change", EVIL.replace("\x00", "")),
    ("report", "-o", "/nowhere/\x1b[2J\nFORGED"),
    ("report", "-o", "-", "--as-of", EVIL),
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda a: visible(" ".join(a))[:40])
def test_no_command_lets_it_reach_the_terminal(arguments: tuple[str, ...], given: Path) -> None:
    done = judged(schedclass(*arguments, "-f", given))
    assert done.out + done.err


@pytest.mark.parametrize("command", ["tree", "check", "simulate"])
@pytest.mark.parametrize(("what", "obj"), broken(), ids=lambda v: v if isinstance(v, str) else "")
def test_no_error_lets_it_reach_the_terminal(
    command: str, what: str, obj: Any, tmp_path: Path
) -> None:
    path = tmp_path / "x\x1b[2J\nFORGED.json"
    path.write_text(json.dumps(obj), encoding="utf-8")
    assert judged(schedclass(command, "-f", path)).err


@pytest.mark.parametrize(
    "text",
    [
        'a: "\x1b"',
        'apiVersion: v1\nkind: "\\e[2J\\nFORGED"\n"\\e[2J": 1\n"\\e[2J": 2\nmetadata: {name: x}',
        'a: *"\x9b"',
        "a: !\x85 b",
        '{"kind": "\\u001b\\nFORGED", "kind": "\\u001b\\nFORGED", "\\u009b": 1, "\\u009b": 1}',
        "kind: {{ .x }}\x9b",
    ],
)
def test_no_word_of_a_reader_lets_it_reach_the_terminal(text: str) -> None:
    assert judged(schedclass("tree", "-f", "-", stdin=text)).err


@pytest.mark.parametrize(
    "config",
    [
        EVIL,
        f"- {json.dumps(EVIL)}",
        json.dumps({"contexts": [{"name": EVIL}], "current-context": f"{EVIL}?"}),
        json.dumps(
            {
                "current-context": EVIL,
                "contexts": [{"name": EVIL, "context": {"cluster": EVIL, "user": EVIL}}],
                "clusters": [{"name": EVIL, "cluster": {"server": EVIL}}],
                "users": [{"name": EVIL, "user": {}}],
            }
        ),
    ],
    ids=["no YAML", "a list", "no context", "no server"],
)
def test_no_word_about_a_kubeconfig_lets_it_reach_the_terminal(config: str, tmp_path: Path) -> None:
    path = tmp_path / "x\x1b[2J\nFORGED"
    path.write_text(config, encoding="utf-8")
    done = judged(schedclass("tree", "--kubeconfig", path))
    assert done.code == 2
    assert judged(schedclass("tree", "--kubeconfig", f"{path}?", "--context", EVIL)).code == 2


def test_no_caveat_lets_it_reach_the_terminal() -> None:
    pod = named("Pod", EVIL, spec={"containers": [], "priorityClassName": EVIL})
    judged(schedclass("simulate", "-f", NODES, "-f", "-", stdin=json.dumps(pod)))


def test_notes_are_written_in_one_place_only() -> None:
    """Who writes to standard error past `tell` lets through what came with an object."""
    direct = {
        path.name
        for path in Path(screen.__file__).parent.glob("*.py")
        if "stderr.write" in path.read_text(encoding="utf-8")
    }
    assert direct == {"screen.py"}


def test_documents_hold_it_as_it_is(given: Path) -> None:
    for output in ("json", "yaml"):
        done = schedclass("tree", "--all", "-f", given, "-o", output)
        assert "\x1b" not in done.out
    document = schedclass("tree", "--all", "-f", given, "-o", "json").document
    assert EVIL in [row["name"] for row in document["namespaces"]]


def test_events_and_colours_are_written_with_nothing_of_it(
    given: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    world = load_world(Common(filename=[str(given)]), set(Part))
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    for record in world.snapshot.pods:
        show_pod(Screen(stream), explain_pod(world, record), [EVIL])
    text = stream.getvalue()
    assert SGR.search(text)
    harmless(SGR.sub("", text))
    assert "FORGED" in text


def test_why_events_cannot_be_read_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    explaining._note_events(EVIL)
    harmless(capsys.readouterr().err)


def test_columns_are_as_wide_as_what_is_seen() -> None:
    stream = io.StringIO()
    Screen(stream).table(("A", "B"), [("\x1b", "1"), ("abcdef", "2")])
    assert stream.getvalue().splitlines() == ["A        B", "\\x1b     1", "abcdef   2"]


def test_sentences_of_one_note_stand_in_lines_of_their_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tell("note", "one", "two\nthree")
    assert capsys.readouterr().err == "note: one\ntwo\\nthree\n"
