"""What `simulate` says of classes that cannot hold pods to come, and of wishes without effect."""

from pathlib import Path
from typing import Any

import pytest

from schedclass.domain import names
from tests.unit.cli.running import NODES, SCENARIOS, Done, manifests, schedclass

BAD_DAY = str(SCENARIOS.parent / "snapshots" / "bad-day.yaml")


def scheduling_class(name: str, spec: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    made = {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": {"name": name}}
    return {**made, **({} if spec is None else {"spec": spec}), **more}


def namespace(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


TENANTS = manifests(
    scheduling_class("dc-west", {"nodeSelector": {"topology.kubernetes.io/region": "west"}}),
    scheduling_class("spread-east", {"nodeSelector": {"topology.kubernetes.io/region": "east"}}),
    scheduling_class("nowhere", {"nodeSelector": {"topology.kubernetes.io/region": "south"}}),
    scheduling_class("broken", {"nodeSelector": {"not a key": "x"}}),
    namespace("default"),
    namespace("tenant-a", **{names.CLASS_KEY: "dc-west"}),
    namespace("tenant-a-b"),
    namespace("tenant-c"),
)


def simulate(*arguments: str | Path, tenants: str = TENANTS) -> Done:
    return schedclass("simulate", *arguments, "-f", NODES, "-f", "-", stdin=tenants)


@pytest.mark.parametrize(
    ("change", "sentence", "reason"),
    [
        (
            "tenant-a=dc-wset",
            "class dc-wset does not exist: new pods of 2 tenants would not be pinned; "
            "did you mean dc-west?",
            "ClassNotFound",
        ),
        (
            "tenant-c=elsewhere",
            "class elsewhere does not exist: new pods of 1 tenant would not be pinned; "
            "did you mean nowhere?",
            "ClassNotFound",
        ),
        (
            "tenant-a=nowhere",
            "class nowhere matches none of 3 nodes: new pods of 2 tenants would wait for one",
            "NoMatchingNodes",
        ),
        (
            "tenant-a=broken",
            'class broken is not valid (spec.nodeSelector["not a key"]: "not a key" is no label '
            "key; its name must have only letters, digits, '-', '_' and '.', with a letter or "
            "digit at either end): new pods of 2 tenants would find no node",
            "InvalidSpec",
        ),
        (
            "tenant-a-b=gone",
            "class gone does not exist: no tenant would have it",
            "ClassNotFound",
        ),
    ],
)
def test_a_class_that_cannot_hold_new_pods_is_said_and_fails(
    change: str, sentence: str, reason: str
) -> None:
    done = simulate("--set-class", change)
    assert done.code == 1
    assert f"! {sentence}" in done.out.splitlines()
    document = simulate("--set-class", change, "-o", "json")
    assert document.code == 1
    finding = document.document["findings"][0]["finding"]
    assert (finding["reason"], finding["message"]) == (reason, sentence)
    assert document.document["findings"][0]["className"] == change.partition("=")[2]


def test_a_class_that_holds_new_pods_is_no_finding() -> None:
    done = simulate("--set-class", "tenant-c=spread-east", "-o", "json")
    assert (done.code, done.document["findings"]) == (0, [])


def test_manifests_that_lead_to_an_absent_class_are_said_and_fail(tmp_path: Path) -> None:
    changed = tmp_path / "ns.yaml"
    changed.write_text(manifests(namespace("tenant-c", **{names.CLASS_KEY: "dc-wst"})))
    done = simulate("--change", changed)
    assert done.code == 1
    assert "class dc-wst does not exist: new pods of 1 tenant would not be pinned" in done.out


def test_a_namespace_that_is_applied_once_more_with_an_absent_class_is_said(tmp_path: Path) -> None:
    changed = tmp_path / "ns.yaml"
    changed.write_text(manifests(namespace("tenant-d", **{names.CLASS_KEY: "gone"})))
    done = schedclass("simulate", "--change", changed, "-f", NODES, "-f", BAD_DAY)
    assert "class gone does not exist: new pods of 1 tenant would not be pinned" in done.out
    assert done.code == 1


def test_a_changed_class_that_no_longer_works_is_said_and_fails(tmp_path: Path) -> None:
    changed = tmp_path / "class.yaml"
    changed.write_text(manifests(scheduling_class("dc-west", {"nodeSelector": {"a b": "c"}})))
    done = simulate("--change", changed)
    assert done.code == 1
    assert "! class dc-west is not valid (" in done.out
    assert "new pods of 2 tenants would find no node" in done.out


def test_pods_to_place_whose_class_is_absent_are_not_passed_over_in_silence() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "tenant-d"},
        "spec": {"containers": [{"name": "main"}]},
    }
    text = TENANTS + "\n---\n" + manifests(namespace("tenant-d", **{names.CLASS_KEY: "gone"}), pod)
    done = simulate(tenants=text)
    assert done.code == 1
    assert "class gone does not exist: new pods of 1 tenant would not be pinned" in done.out
    assert "1 of 1 pod placed" in done.out


def test_a_class_that_may_exist_out_of_sight_is_not_called_missing() -> None:
    done = simulate("--set-class", "tenant-c=dc-east", tenants=manifests(namespace("tenant-c")))
    assert done.code == 0
    assert "note: whether class dc-east exists is not known" in done.err
    assert "does not exist" not in done.out


@pytest.mark.parametrize(
    ("change", "sentence", "code"),
    [
        (
            "tenant-a-b=spread-east",
            "tenant-a-b=spread-east has no effect: tenant-a sets dc-west for all tenants below it",
            0,
        ),
        (
            "tenant-a-b=",
            "tenant-a-b= has no effect: tenant-a sets dc-west for all tenants below it",
            0,
        ),
        ("default=dc-west", "default=dc-west has no effect: default is never pinned", 1),
        (
            "tenant-a=dc-west",
            "tenant-a=dc-west has no effect: tenant-a has class dc-west already",
            0,
        ),
        ("tenant-c=", "tenant-c= has no effect: tenant-c has no class anyway", 0),
    ],
)
def test_a_wish_without_effect_is_told_why(change: str, sentence: str, code: int) -> None:
    done = simulate("--set-class", change)
    assert f"! {sentence}" in done.out.splitlines()
    assert done.code == code


def test_a_wish_that_another_change_makes_way_for_has_its_effect() -> None:
    done = simulate("--set-class", "tenant-a=", "--set-class", "tenant-a-b=spread-east")
    assert done.code == 0
    assert "has no effect" not in done.out
    assert "  tenant-a-b   dc-west   spread-east   0" in done.out


def test_a_tenant_that_is_given_two_classes_is_refused() -> None:
    done = simulate("--set-class", "tenant-a=dc-west", "--set-class", "tenant-a=spread-east")
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith("error: --set-class gives tenant-a a class twice; give it one\n")


def test_a_label_that_is_given_twice_is_refused() -> None:
    done = simulate("--relabel", "node-1:a=b", "--relabel", "node-1:a-")
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith("error: --relabel gives node-1 the label a twice; give it once\n")


def test_a_misspelt_tenant_is_refused_with_the_nearest() -> None:
    done = simulate("--set-class", "tenat-a=dc-west")
    assert done.code == 2
    assert "there is no namespace tenat-a to give a class to; did you mean tenant-a?" in done.err


def test_a_change_that_is_not_what_it_seems_is_said_and_fails(tmp_path: Path) -> None:
    changed = tmp_path / "class.yaml"
    region = {"topology.kubernetes.io/region": "west"}
    changed.write_text(
        manifests(
            scheduling_class("dc-west", {"nodeSelecter": region}),
            scheduling_class("dc_east", {"nodeSelector": region}, sepc={}),
        )
    )
    done = simulate("--change", changed, "-o", "json")
    assert done.code == 1
    told = {(f["subject"]["name"], f["finding"]["reason"]) for f in done.document["findings"]}
    assert told == {
        ("dc-west", "UnsupportedField"),
        ("dc_east", "UnsupportedField"),
        ("dc_east", "InvalidObject"),
    }


def test_only_one_namespace_is_shown_where_one_is_asked_for() -> None:
    given = ("--set-class", "tenant-a=dc-east", "-f", NODES, "-f", BAD_DAY, "-o", "json")
    done = schedclass("simulate", *given, "-n", "tenant-a-b").document
    assert [touched["namespace"] for touched in done["impact"]["tenants"]] == ["tenant-a-b"]
    assert [v["subject"]["name"] for v in done["impact"]["breaking"]] == ["escaped"]
    assert (done["groups"], done["summary"]) == ([], {"pods": 0, "placed": 0})
    whole = schedclass("simulate", *given).document
    assert len(whole["impact"]["tenants"]) == 3
    assert [group["name"] for group in whole["groups"]] == ["Pod tenant-a/waits"]


def stuck(namespace: str, kind: str = "Pod") -> dict[str, Any]:
    """A pod that fits on no node, or a Deployment of one."""
    container = {"name": "main", "resources": {"requests": {"cpu": "1000"}}}
    spec = {"containers": [container]}
    meta = {"name": "stuck", "namespace": namespace, "labels": {"app": "stuck"}}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": kind, "metadata": meta, "spec": spec}
    template = {"metadata": {"labels": meta["labels"]}, "spec": spec}
    wanted = {"replicas": 1, "selector": {"matchLabels": meta["labels"]}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": wanted}


@pytest.mark.parametrize("kind", ["Pod", "Deployment"])
def test_pods_that_wait_as_before_are_not_blamed_on_a_change(kind: str) -> None:
    there = TENANTS + "\n---\n" + manifests(stuck("tenant-c", kind))
    done = simulate(tenants=there)
    assert done.code == 1

    done = simulate("--set-class", "tenant-a=spread-east", tenants=there)
    assert done.code == 0
    assert "stuck" not in done.out
    assert "note: 1 waiting pod that the change does not concern: not shown\n" in done.err

    done = simulate("--set-class", "tenant-c=dc-west", tenants=there)
    assert done.code == 1
    assert "tenant-c/stuck" in done.out


@pytest.mark.parametrize("kind", ["Pod", "Deployment"])
def test_pods_that_are_given_with_a_change_are_shown_though_they_wait_already(
    kind: str, tmp_path: Path
) -> None:
    change = tmp_path / "change.yaml"
    change.write_text(manifests(stuck("tenant-c", kind)), encoding="utf-8")
    there = TENANTS + "\n---\n" + manifests(stuck("tenant-c", kind))
    done = simulate("--change", change, tenants=there)
    assert done.code == 1
    assert "tenant-c/stuck" in done.out
