"""What the commands print, from manifests alone."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from schedclass.domain import names
from tests.unit.cli.running import NODES, SCENARIOS, expect_golden, manifests, schedclass

TENANTS = str(SCENARIOS.parent / "snapshots" / "bad-day.yaml")


@pytest.mark.parametrize(
    "arguments",
    [
        ("tree",),
        ("tree", "--all"),
        ("tree", "--fold", "0"),
        ("tree", "--depth", "1"),
        ("tree", "--troubled"),
        ("tree", "--class", "dc-west"),
        ("tree", "tenant-a"),
        ("check",),
        ("check", "-n", "tenant-a-b"),
        ("usage", "dc-west"),
        ("usage", "gone"),
        ("explain", "namespace", "tenant-a-b"),
        ("explain", "ns", "kube-system"),
        ("explain", "class", "dc-west"),
        ("explain", "class", "broken"),
        ("explain", "pod", "web-0", "-n", "tenant-a"),
        ("explain", "pod", "waits", "-n", "tenant-a"),
        ("explain", "pod", "escaped", "-n", "tenant-a-b"),
        ("explain", "deployment", "shop", "-n", "tenant-c"),
        ("explain", "app", "Web/web", "-n", "tenant-a"),
        ("simulate", "--set-class", "tenant-a=dc-east"),
        ("simulate", "--relabel", "node-1:topology.kubernetes.io/region=east"),
        ("simulate", "--remove-node", "node-1"),
    ],
    ids=" ".join,
)
def test_the_output_is_as_it_was_read_and_approved(arguments: tuple[str, ...]) -> None:
    stem = "-".join(arguments).replace("/", "_").replace("=", "_").replace(":", "_")
    given = ("-f", NODES, "-f", TENANTS)
    table = schedclass(*arguments, *given)
    expect_golden(f"{stem}.txt", f"exit {table.code}\n{table.out}--- notes\n{table.err}")
    document = schedclass(*arguments, *given, "-o", "json")
    assert document.code == table.code
    stable = document.out.replace(NODES, "nodes.yaml").replace(TENANTS, "tenants.yaml")
    expect_golden(f"{stem}.json", stable)


@pytest.mark.parametrize(
    "arguments",
    [("tree",), ("check",), ("usage", "dc-west"), ("explain", "ns", "tenant-a"), ("simulate",)],
    ids=" ".join,
)
def test_yaml_says_the_same_as_json_under_a_versioned_schema(arguments: tuple[str, ...]) -> None:
    given = (*arguments, "-f", NODES, "-f", TENANTS)
    document = schedclass(*given, "-o", "json").document
    assert yaml.safe_load(schedclass(*given, "-o", "yaml").out) == document
    assert document["apiVersion"] == names.CLI_API_VERSION
    assert document["kind"][0].isupper()
    assert document["unknown"] == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("tree", "nowhere"), "there is no namespace nowhere"),
        (("usage", "unheard"), "there is no SchedulingClass unheard"),
        (("explain", "pod", "nowhere"), "there is no pod default/nowhere"),
        (("explain", "pod", "nowhere", "-n", "tenant-a"), "there is no pod tenant-a/nowhere"),
        (("explain", "cat", "x"), "cannot explain a cat"),
        (("explain", "pod", "web-0", "-A"), "explain takes no -A"),
        (("explain", "ns", "nowhere"), "there is no namespace nowhere"),
        (
            ("explain", "app", "nowhere", "-n", "tenant-a"),
            "there is no Application tenant-a/nowhere",
        ),
        (("simulate", "--set-class", "tenant-a"), "write TENANT=CLASS"),
        (("simulate", "--set-class", "nowhere=a"), "there is no namespace nowhere"),
        (("simulate", "--set-class", "tenant-a=a b"), '"a b" is no class name'),
        (("simulate", "--remove-node", "nowhere"), "there is no node nowhere"),
        (("simulate", "--relabel", "node-1=a"), "write NODE:KEY=VALUE"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_answered_ends_with_two_and_one_sentence(
    arguments: tuple[str, ...], sentence: str
) -> None:
    done = schedclass(*arguments, "-f", NODES, "-f", TENANTS)
    assert (done.code, done.out) == (2, "")
    last = done.err.splitlines()[-1]
    assert last.startswith("error: ")
    assert sentence in last


@pytest.mark.parametrize("arguments", [("--nonsense",), ("tree", "--depth", "0"), ("explain",)])
def test_wrong_usage_ends_with_two(arguments: tuple[str, ...]) -> None:
    assert schedclass(*arguments).code == 2


def test_without_nodes_nothing_is_said_about_nodes() -> None:
    done = schedclass("check", "-f", TENANTS, "-o", "json")
    reasons = {violation["finding"]["reason"] for violation in done.document["violations"]}
    assert "NoMatchingNodes" not in reasons
    assert "NodeNotAllowed" not in reasons
    assert [entry["part"] for entry in done.document["unknown"]] == ["nodes"]
    assert schedclass("simulate", "-f", TENANTS).code == 2


def test_without_classes_none_is_called_missing() -> None:
    text = manifests(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "tenant-a", "labels": {names.CLASS_KEY: "unseen"}},
        }
    )
    done = schedclass("check", "-f", "-", stdin=text)
    assert done.code == 0
    assert "classes are not all known, so none is called missing" in done.out
    assert (
        'whether class "unseen" exists is not known'
        in schedclass("explain", "ns", "tenant-a", "-f", "-", stdin=text).out
    )


def test_a_tenant_that_is_not_yet_a_namespace_is_judged_before_merge() -> None:
    """A pipeline has Tenants and classes; the namespaces are made from them later."""
    tenant = {
        "apiVersion": "apps.cozystack.io/v1alpha1",
        "kind": "Tenant",
        "metadata": {"name": "a", "namespace": "tenant-root"},
        "spec": {"schedulingClass": "dc-west"},
    }
    below = {
        **tenant,
        "metadata": {"name": "b", "namespace": "tenant-a"},
        "spec": {"schedulingClass": "dc-east"},
    }
    cls = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": "dc-west"},
        "spec": {"nodeSelector": {"region": "west"}},
    }
    text = manifests(tenant, below, cls)
    done = schedclass("check", "-f", "-", "-o", "json", stdin=text)
    assert done.code == 0
    assert done.document["violations"] == []
    (note,) = done.document["notes"]
    assert note["finding"]["reason"] == "OverrideIgnored"
    assert note["subject"]["name"] == "tenant-a-b"
    assert schedclass("check", "--strict", "-f", "-", stdin=text).code == 1


SCENARIO_OUTCOMES: dict[str, dict[str, int]] = {
    "selector": {"node-1": 2, "node-2": 2},
    "preferred-affinity": {"node-1": 2},
    "anti-affinity": {"node-1": 1, "node-2": 1, "node-3": 1, "": 1},
    "spread-7": {"node-1": 3, "node-2": 2, "node-3": 2},
    "spread-9": {"node-1": 3, "node-2": 3, "node-3": 3},
    "taints": {"node-3": 2, "": 2},
    "no-execute": {"node-1": 1},
    "preemption": {"node-1": 1},
    "filter-score-bind": {"node-3": 1},
}


def test_every_scenario_is_tried() -> None:
    found = {path.stem for path in SCENARIOS.glob("*.yaml")} - {"nodes"}
    assert found == set(SCENARIO_OUTCOMES)


@pytest.mark.parametrize("name", SCENARIO_OUTCOMES)
def test_the_scenarios_of_the_course_come_out_as_taught(name: str) -> None:
    done = schedclass("simulate", "-f", NODES, "-f", SCENARIOS / f"{name}.yaml", "-o", "json")
    per_node: dict[str, int] = {}
    for group in done.document["groups"]:
        for placement in group["placements"]:
            node = placement.get("node", "")
            per_node[node] = per_node.get(node, 0) + 1
    assert per_node == SCENARIO_OUTCOMES[name]
    assert done.code == ("" in per_node)


def test_the_lesson_on_filter_score_and_bind_is_explained() -> None:
    """One node is refused for its CPU, two are scored, the emptier of them is chosen."""
    given = ("-f", NODES, "-f", SCENARIOS / "filter-score-bind.yaml")
    done = schedclass("explain", "pod", "web", "-n", "shop", *given, "-o", "json")
    judgement = done.document["explanation"]["judgement"]
    verdicts: dict[str, Any] = {verdict["node"]: verdict for verdict in judgement["verdicts"]}
    assert [check["message"] for check in verdicts["node-1"]["rejections"]] == ["Insufficient cpu"]
    assert verdicts["node-3"]["score"] > verdicts["node-2"]["score"]
    assert judgement["node"] == "node-3"


def test_a_changed_class_tells_whom_it_touches_breaks_and_frees(tmp_path: Path) -> None:
    changed = tmp_path / "changed.json"
    changed.write_text(
        json.dumps(
            {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "metadata": {"name": "dc-west"},
                "spec": {"nodeSelector": {"topology.kubernetes.io/zone": "c"}},
            }
        )
    )
    given = ("-f", NODES, "-f", TENANTS)
    done = schedclass("simulate", *given, "--change", changed, "-o", "json")
    impact = done.document["impact"]
    assert done.code == 1
    assert [touched["namespace"] for touched in impact["tenants"]][:2] == ["tenant-a", "tenant-a-b"]
    assert {violation["subject"]["name"] for violation in impact["breaking"]} >= {"web-0"}
    assert [outcome["pod"] for outcome in impact["starting"]] == ["tenant-a/waits"]
    assert {v["subject"]["name"] for v in impact["mended"]} == {"drifted"}
