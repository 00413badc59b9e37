"""Namespaces are stamped in the very request that creates or changes them."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from controlplane import Api, Installation, Kubectl, eventually
from controlplane.installation import NAMESPACE
from schedclass.domain import names
from schedclass.domain.findings import Reason
from tests.cluster.objects import (
    NAMESPACES,
    Json,
    annotations,
    labels,
    namespace_path,
    owner_reference,
    pinned_to,
    pod,
    pods_path,
)
from tests.cluster.tenants import Tenants, unique

WEST, EAST = "dc-west", "dc-east"
OURS = {names.CLASS_KEY, names.ENFORCED}
APPLY = {"Content-Type": "application/apply-patch+yaml"}


@pytest.fixture
def parent(tenants: Tenants) -> str:
    """A namespace that asks for dc-west."""
    return tenants.create(wants=WEST)


def stamped(answer: Json) -> tuple[str | None, str | None, str | None, str | None]:
    """Class, enforced, origin and kept wish, as the answer to a request shows them."""
    return (
        labels(answer).get(names.CLASS_KEY),
        labels(answer).get(names.ENFORCED),
        annotations(answer).get(names.INHERITED_FROM),
        annotations(answer).get(names.REQUESTED_CLASS),
    )


def child(tenants: Tenants, parent: str, **metadata: object) -> Json:
    """The manifest of a namespace below another."""
    name = tenants.adopt(unique("ns"))
    owners = [owner_reference(tenants.get(parent))]
    return {"metadata": {"name": name, "ownerReferences": owners, **metadata}}


def ignored(wish: str, origin: str, class_name: str = WEST) -> str:
    return (
        f'scheduling class "{wish}" is ignored: {origin} sets "{class_name}" '
        "for all tenants below it"
    )


def warned(wish: str, origin: str) -> str:
    return f"{Reason.OVERRIDE_IGNORED}: {ignored(wish, origin)}"


# --- CREATE ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("known_scheduler")
def test_a_child_is_born_with_its_parents_class(api: Api, tenants: Tenants, parent: str) -> None:
    born = api.create(NAMESPACES, child(tenants, parent))
    assert stamped(born) == (WEST, "true", parent, None)
    assert api.warnings == []


def test_a_tenant_is_born_with_the_class_of_the_longest_prefix(api: Api, tenants: Tenants) -> None:
    root = tenants.create(unique("tenant"), wants=WEST)
    middle = tenants.create(f"{root}-a")
    name = tenants.adopt(f"{middle}-b-c")
    born = api.create(NAMESPACES, {"metadata": {"name": name}})
    assert stamped(born) == (WEST, "true", root, None)


def test_its_own_class_is_enforced_at_once(api: Api, tenants: Tenants) -> None:
    body = {"metadata": {"name": tenants.adopt(unique("ns")), "labels": {names.CLASS_KEY: EAST}}}
    assert stamped(api.create(NAMESPACES, body)) == (EAST, "true", None, None)


def test_a_class_that_does_not_exist_is_warned_of(api: Api, tenants: Tenants) -> None:
    wish = {names.CLASS_KEY: "dc-nowhere"}
    body = {"metadata": {"name": tenants.adopt(unique("ns")), "labels": wish}}
    assert stamped(api.create(NAMESPACES, body)) == ("dc-nowhere", None, None, None)
    assert any('"dc-nowhere" does not exist' in warning for warning in api.warnings)


@pytest.mark.usefixtures("known_scheduler")
def test_an_overridden_wish_is_kept_and_warned_of(api: Api, tenants: Tenants, parent: str) -> None:
    wish = child(tenants, parent, labels={names.CLASS_KEY: EAST})
    assert stamped(api.create(NAMESPACES, wish)) == (WEST, "true", parent, EAST)
    assert api.warnings == [warned(EAST, parent)]


def test_forged_marks_of_ours_are_put_right(api: Api, tenants: Tenants) -> None:
    forged = {
        "name": tenants.adopt(unique("ns")),
        "labels": {names.ENFORCED: "true", "app": "x"},
        "annotations": {names.INHERITED_FROM_UID: "none", "a": "b"},
    }
    born = api.create(NAMESPACES, {"metadata": forged})
    assert stamped(born) == (None, None, None, None)
    assert labels(born)["app"] == "x"
    assert annotations(born) == {"a": "b"}


@pytest.mark.parametrize("by", ["owner", "name"])
def test_a_generated_name_is_no_way_out(api: Api, tenants: Tenants, parent: str, by: str) -> None:
    if by == "owner":
        body = child(tenants, parent)
        body["metadata"] |= {"name": None, "generateName": "ns-"}
    else:
        root = tenants.create(unique("tenant"), wants=WEST)
        body = {"metadata": {"generateName": f"{root}-"}}
    born = api.create(NAMESPACES, body)
    name = tenants.adopt(born["metadata"]["name"])
    assert stamped(born)[:2] == (WEST, "true")
    tenants.settle({name: WEST})


def test_a_dry_run_shows_the_stamp_and_stores_nothing(
    kubectl: Kubectl, tenants: Tenants, parent: str
) -> None:
    body = child(tenants, parent)
    body |= {"apiVersion": "v1", "kind": "Namespace"}
    shown = kubectl("create", "-f", "-", "--dry-run=server", "-o", "json", input=json.dumps(body))
    assert stamped(json.loads(shown)) == (WEST, "true", parent, None)
    assert tenants.api.find(namespace_path(body["metadata"]["name"])) is None


# --- UPDATE ---------------------------------------------------------------------------------------


def test_overwriting_the_label_is_answered_with_a_warning_and_no_effect(
    kubectl: Kubectl, tenants: Tenants, parent: str
) -> None:
    below = tenants.create(below=parent)
    done = kubectl.attempt("label", "ns", below, f"{names.CLASS_KEY}={EAST}", "--overwrite")
    assert done.returncode == 0
    assert f"Warning: {warned(EAST, parent)}" in done.stderr
    assert stamped(tenants.get(below)) == (WEST, "true", parent, EAST)
    event = tenants.wait_event(below, Reason.OVERRIDE_IGNORED)
    assert event["message"] == ignored(EAST, parent)


def test_taking_the_label_off_a_child_has_no_effect(
    kubectl: Kubectl, tenants: Tenants, parent: str
) -> None:
    below = tenants.create(below=parent)
    kubectl("label", "ns", below, f"{names.CLASS_KEY}-", f"{names.ENFORCED}-")
    assert stamped(tenants.get(below)) == (WEST, "true", parent, None)


def test_taking_our_annotations_off_does_not_free_a_child(tenants: Tenants, parent: str) -> None:
    below = tenants.create(below=parent)
    keys = (names.INHERITED_FROM, names.INHERITED_CLASS, names.INHERITED_FROM_UID)
    answer = tenants.annotate(below, dict.fromkeys(keys))
    assert stamped(answer)[:3] == (WEST, "true", parent)
    tenants.ask(parent, EAST)
    tenants.settle({below: EAST})


@pytest.mark.usefixtures("known_scheduler")
def test_a_new_owner_counts_in_the_same_request(tenants: Tenants, parent: str) -> None:
    orphan = tenants.create(wants=EAST)
    answer = tenants.move(orphan, below=parent)
    assert stamped(answer) == (WEST, "true", parent, EAST)
    assert tenants.api.warnings == [warned(EAST, parent)]


def test_foreign_labels_and_annotations_stay(tenants: Tenants, parent: str) -> None:
    foreign: dict[str, str | None] = {
        "kustomize.toolkit.fluxcd.io/name": "tenants",
        "app.kubernetes.io/managed-by": "Helm",
        "pod-security.kubernetes.io/enforce": "baseline",
        "scheduler.cozystack.io/other": "1",
    }
    below = tenants.create(below=parent)
    tenants.label(below, foreign)
    tenants.annotate(below, {"helm.sh/resource-policy": "keep"})
    tenants.ask(below, EAST)
    tenants.ask(parent, EAST)
    tenants.settle({below: EAST})
    found = tenants.get(below)
    assert {k: v for k, v in labels(found).items() if k in foreign} == foreign
    assert annotations(found)["helm.sh/resource-policy"] == "keep"


def test_twenty_foreign_labels_changed_at_once_are_all_intact(
    tenants: Tenants, parent: str
) -> None:
    below = tenants.create(below=parent)

    def change(number: int) -> None:
        tenants.label(below, {f"example.com/l{number}": str(number)})
        tenants.ask(parent, EAST if number % 2 else WEST)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(change, range(20)))
    tenants.ask(parent, EAST)
    tenants.settle({below: EAST})
    found = labels(tenants.get(below))
    written = {key: value for key, value in found.items() if key.startswith("example.com/")}
    assert written == {f"example.com/l{number}": str(number) for number in range(20)}


# --- GitOps and Helm ------------------------------------------------------------------------------


@pytest.mark.usefixtures("known_scheduler")
def test_server_side_apply_of_an_overridden_class_is_stamped_and_stays_quiet(
    api: Api, tenants: Tenants, parent: str
) -> None:
    below = tenants.create(below=parent)
    manifest = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": below, "labels": {names.CLASS_KEY: EAST, "team": "x"}},
    }
    path = f"{namespace_path(below)}?fieldManager=gitops"
    forced = api.request("PATCH", f"{path}&force=true", manifest, headers=APPLY)
    assert stamped(forced) == (WEST, "true", parent, EAST)
    assert api.warnings == [warned(EAST, parent)]
    version = forced["metadata"]["resourceVersion"]
    for _ in range(3):
        again = api.request("PATCH", f"{path}&force=true", manifest, headers=APPLY)
        assert stamped(again) == (WEST, "true", parent, EAST)
    assert again["metadata"]["resourceVersion"] == version
    assert labels(again)["team"] == "x"


def test_server_side_apply_without_force_is_told_who_owns_the_label(
    api: Api, tenants: Tenants, parent: str
) -> None:
    below = tenants.create()
    tenants.move(below, below=parent)
    manifest = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": below, "labels": {names.CLASS_KEY: WEST, "team": "x"}},
    }
    path = f"{namespace_path(below)}?fieldManager=gitops"
    same = api.request("PATCH", path, manifest, headers=APPLY)
    assert stamped(same) == (WEST, "true", parent, None)


def test_a_three_way_update_from_a_stale_manifest_changes_nothing(
    kubectl: Kubectl, tenants: Tenants, parent: str
) -> None:
    manifest = child(tenants, parent, labels={names.CLASS_KEY: EAST})
    manifest |= {"apiVersion": "v1", "kind": "Namespace"}
    name = manifest["metadata"]["name"]
    for revision in ("1", "2", "3"):
        manifest["metadata"]["annotations"] = {"revision": revision}
        kubectl("apply", "-f", "-", input=json.dumps(manifest))
        found = tenants.get(name)
        assert stamped(found) == (WEST, "true", parent, EAST)
        assert annotations(found)["revision"] == revision


# --- namespaces that are never labelled and never pinned ------------------------------------------


@pytest.mark.parametrize("carries", ["label", "owner"])
@pytest.mark.parametrize("kind", ["kube-", "cozy-"])
def test_a_system_namespace_is_neither_labelled_nor_pinned(
    api: Api, tenants: Tenants, parent: str, kind: str, carries: str
) -> None:
    name = unique(f"{kind}x")
    if carries == "label":
        tenants.create(name, wants=WEST, with_account=True)
    else:
        tenants.create(name, below=parent, with_account=True)
    assert pinned_to(api.create(pods_path(name), pod())) is None
    # What happens to this one afterwards shows that the controller has seen the other.
    tenants.settle({tenants.create(below=parent): WEST})
    found = tenants.get(name)
    ours = {key for key in labels(found) if key in OURS}
    assert ours == ({names.CLASS_KEY} if carries == "label" else set())
    assert names.INHERITED_FROM not in annotations(found)
    if carries == "label":
        assert "takes no class" in tenants.wait_event(name, Reason.NAMESPACE_EXCLUDED)["message"]


@pytest.mark.parametrize("name", ["default", "kube-public", NAMESPACE])
def test_labels_on_the_clusters_own_namespaces_pin_nothing(
    operator: Installation, api: Api, tenants: Tenants, name: str
) -> None:
    account = f"{NAMESPACES}/{name}/serviceaccounts/default"
    eventually("its ServiceAccount", lambda: api.find(account))
    tenants.ask(name, WEST)
    try:
        created = api.create(f"{pods_path(name)}?dryRun=All", pod(unique("web")))
        assert pinned_to(created) is None
    finally:
        tenants.ask(name, None)
    assert all(map(operator.is_ready, operator.replicas))
