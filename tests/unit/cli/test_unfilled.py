"""What `check` and `explain` say of rules that have no effect, as a pod lacks labels for them."""

from typing import Any

import pytest

from schedclass.domain import names
from tests.unit.cli.running import NODES, Done, manifests, schedclass

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ZONE = "topology.kubernetes.io/zone"
SPREAD = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
LACKS = "the pod lacks labels apps.cozystack.io/application"
FILLED = 'to fill a labelSelector of class "dc" from'
LOST = "it counts no pods for its topologySpreadConstraints"
GROUP, KIND, NAME = names.LINEAGE_LABELS


def tenant(name: str = "tenant-a", class_name: str = "dc") -> dict[str, Any]:
    labels = {names.CLASS_KEY: class_name}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def dc(name: str = "dc", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name},
        "spec": spec or {"topologySpreadConstraints": [SPREAD]},
    }


def pod(
    name: str, *labels: str, namespace: str = "tenant-a", stored: bool = True, **spec: Any
) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": dict.fromkeys(labels, "x")}
    if stored:
        annotations = {names.CLASS_KEY: "dc"}
        metadata = {**metadata, "uid": f"uid-{namespace}-{name}", "annotations": annotations}
        spec = {"schedulerName": names.SCHEDULER_NAME, "nodeName": "node-1", **spec}
    spec = {"containers": [{"name": "main", "image": "w"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def check(*objects: dict[str, Any], arguments: tuple[str, ...] = ()) -> Done:
    given = ("-f", NODES, "-f", "-", "-o", "json")
    return schedclass("check", *arguments, *given, stdin=manifests(*objects))


def notes(done: Done) -> list[tuple[str, str]]:
    """Namespace and sentence of each note about it."""
    return [
        (note["subject"]["name"], note["finding"]["message"])
        for note in done.document["notes"]
        if note["finding"]["reason"] == "SelectorNotFilled"
    ]


def test_pods_of_a_namespace_that_lack_the_same_labels_are_one_note() -> None:
    bare = [pod(f"job-{number}") for number in range(3)]
    there = [pod("half", KIND), pod("whole", GROUP, KIND, NAME), pod("b", namespace="tenant-b")]
    done = check(dc(), tenant(), tenant("tenant-b"), *bare, *there)
    rest = f"{FILLED}; add them, or a labelSelector to the class; {LOST}"
    assert notes(done) == [
        ("tenant-a", f"1 pod, such as half: {LACKS}.{{group,name}} {rest}"),
        ("tenant-a", f"3 pods, such as job-0: {LACKS}.{{group,kind,name}} {rest}"),
        ("tenant-b", f"1 pod, such as b: {LACKS}.{{group,kind,name}} {rest}"),
    ]
    assert done.document["violations"] == []
    assert done.code == 0
    first = done.document["notes"][0]
    assert (first["kind"], first["className"]) == ("class", "dc")
    assert (first["finding"]["severity"], first["subject"]["kind"]) == ("Warning", "Namespace")
    narrowed = check(dc(), tenant(), tenant("tenant-b"), *there, arguments=("-n", "tenant-b"))
    assert [name for name, _ in notes(narrowed)] == ["tenant-b"]
    assert check(dc(), tenant(), *bare, arguments=("--strict",)).code == 1


@pytest.mark.parametrize(
    ("cls", "one", "option"),
    [
        (dc(), pod("whole", GROUP, KIND, NAME), ()),
        (dc(), pod("by-team", "team"), ("--label-keys=team",)),
        (dc(topologySpreadConstraints=[{**SPREAD, "labelSelector": {}}]), pod("all"), ()),
        (dc(), pod("unpinned", schedulerName="default-scheduler"), ()),
        (dc(), {**pod("ended"), "status": {"phase": "Succeeded"}}, ()),
        (dc("other"), pod("gone", stored=False), ()),
    ],
    ids=["all labels", "other keys", "a selector", "not pinned", "ended", "no such class"],
)
def test_nothing_is_told_where_nothing_is_lost(
    cls: dict[str, Any], one: dict[str, Any], option: tuple[str, ...]
) -> None:
    assert notes(check(cls, tenant(), one, arguments=option)) == []


def test_where_no_keys_are_configured_no_label_can_help() -> None:
    done = check(dc(), tenant(), pod("whole", *names.LINEAGE_LABELS), arguments=("--label-keys=",))
    ((_, message),) = notes(done)
    assert f"no keys are configured {FILLED}; give the class one" in message


@pytest.mark.parametrize("stored", [True, False])
def test_an_explained_pod_tells_which_rules_have_no_effect(*, stored: bool) -> None:
    given = ("-n", "tenant-a", "-f", NODES, "-f", "-")
    stdin = manifests(dc(), tenant(), pod("job", KIND, stored=stored))
    table = schedclass("explain", "pod", "job", *given, stdin=stdin)
    assert f"SelectorNotFilled: {LACKS}.{{group,name}} {FILLED}; add them" in table.out
    told = schedclass("explain", "pod", "job", *given, "-o", "json", stdin=stdin).document
    step = told["explanation"]["steps"][-1]
    assert step["rule"] == "Label selectors"
    assert step["restsOn"] == ["SchedulingClass dc spec", "Pod tenant-a/job metadata.labels"]
    assert [finding["reason"] for finding in step["findings"]] == ["SelectorNotFilled"]
    assert told["explanation"]["violations"] == []


def test_a_required_pod_affinity_that_holds_a_pod_back_is_told_with_the_labels() -> None:
    near = dc(podAffinity={REQUIRED: [{"topologyKey": ZONE}]})
    waits = pod("waits", KIND, nodeName="")
    done = schedclass(
        *("explain", "pod", "waits", "-n", "tenant-a", "-f", NODES, "-f", "-"),
        stdin=manifests(near, tenant(), waits),
    )
    assert f"SelectorNotFilled: {LACKS}.{{group,name}} {FILLED}; add them" in done.out
    assert "it leaves the pod Pending by its required podAffinity" in done.out
    assert (
        '=> 0/3 nodes are available: 3 SchedulingClass "dc" pod affinity has no labelSelector, and '
        f"the pod lacks labels to fill it from ({GROUP}, {NAME})."
    ) in done.out


def test_a_workload_tells_it_of_pods_that_are_still_to_come() -> None:
    template = {"metadata": {"labels": {KIND: "x"}}, "spec": pod("w", stored=False)["spec"]}
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "tenant-a"},
        "spec": {"replicas": 2, "template": template},
    }
    given = ("-n", "tenant-a", "-f", NODES, "-f", "-")
    stdin = manifests(dc(), tenant(), web)
    table = schedclass("explain", "deployment", "web", *given, stdin=stdin)
    assert table.out.count(f"SelectorNotFilled: {LACKS}.{{group,name}} {FILLED}; add them") == 1
    told = schedclass("explain", "deployment", "web", *given, "-o", "json", stdin=stdin).document
    (missing,) = told["missing"]
    reasons = [f["reason"] for step in missing["explanation"]["steps"] for f in step["findings"]]
    assert "SelectorNotFilled" in reasons
