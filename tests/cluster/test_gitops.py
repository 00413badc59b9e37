"""Deployment engines that insist on another class than applies: a fight that nobody wins twice."""

import itertools
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonpointer import resolve_pointer, set_pointer

from controlplane import Api, Installation, eventually
from controlplane.installation import RELEASE
from schedclass.domain import names
from schedclass.domain.findings import Reason
from tests.cluster.engines import (
    ArgoSelfHeal,
    Engine,
    FluxApply,
    HelmUpgrade,
    PlainApply,
    manifest_of,
)
from tests.cluster.objects import WEBHOOKS, Json, annotations, labels, pinned_to, pod, pods_path
from tests.cluster.tenants import Tenants

WEST, EAST = "dc-west", "dc-east"

FIGHT_SECONDS = 9.0
PAUSE_SECONDS = 0.1
"""Between two rounds of an engine; a real one takes minutes."""
DOCUMENT = Path(__file__).parents[2] / "docs" / "gitops.md"

ENGINES: list[tuple[type[Engine], str, str | None]] = [
    (FluxApply, "kustomize-controller", EAST),
    (PlainApply, "kubectl", EAST),
    (HelmUpgrade, "helm", EAST),
    (ArgoSelfHeal, "argocd-controller", None),
]
each_engine = pytest.mark.parametrize(
    ("kind", "manager", "wish"), ENGINES, ids=[kind.__name__ for kind, _, _ in ENGINES]
)


@pytest.fixture
def child(tenants: Tenants) -> str:
    """A tenant below one that is pinned to `dc-west`."""
    parent = tenants.create(wants=WEST)
    name = tenants.create(below=parent, with_account=True)
    tenants.settle({name: WEST})
    return name


@pytest.fixture
def without_namespace_admission(api: Api, operator: Installation) -> Iterator[None]:
    """Only the controller puts namespaces right, as with an outage of that one webhook entry."""
    path = f"{WEBHOOKS}/mutatingwebhookconfigurations/{RELEASE}"
    before = api.get(path)["webhooks"]
    pods_only = [hook for hook in before if hook["name"].startswith("pods.")]
    assert 0 < len(pods_only) < len(before)
    api.merge_patch(path, {"webhooks": pods_only})
    eventually("namespaces are not reviewed any more", lambda: not operator.is_called())
    yield
    api.merge_patch(path, {"webhooks": before})
    eventually("namespaces are reviewed again", operator.is_called)


def writes(operator: Installation, mark: int, name: str) -> list[Json]:
    """The controller's writes on a namespace that were accepted."""
    user = operator.user("controller")
    found = operator.cluster.audit.events(
        mark, user=user, verb="patch", resource="namespaces", name=name
    )
    return [event for event in found if event["responseStatus"]["code"] == 200]


def pauses(events: list[Json]) -> list[float]:
    times = [datetime.fromisoformat(event["requestReceivedTimestamp"]) for event in events]
    return [(after - before).total_seconds() for before, after in itertools.pairwise(times)]


def probe(api: Api, name: str) -> str | None:
    return pinned_to(api.create(f"{pods_path(name)}?dryRun=All", pod("probe")))


@each_engine
def test_admission_puts_an_engines_write_right_within_the_request(
    api: Api,
    operator: Installation,
    tenants: Tenants,
    child: str,
    kind: type[Engine],
    manager: str,
    wish: str | None,
) -> None:
    engine = kind(api, child, manifest_of(tenants.get(child), wish), manager)
    mark = operator.cluster.audit.mark()
    for _ in range(15):
        engine.reconcile()
        assert tenants.class_of(child) == WEST
        assert labels(tenants.get(child))[names.ENFORCED] == "true"
    assert probe(api, child) == WEST
    assert writes(operator, mark, child) == []
    assert tenants.events(child, Reason.LABEL_CONTESTED) == []


@each_engine
@pytest.mark.usefixtures("without_namespace_admission")
def test_without_admission_the_controller_writes_ever_more_rarely_and_pods_stay_pinned(
    api: Api,
    operator: Installation,
    tenants: Tenants,
    child: str,
    kind: type[Engine],
    manager: str,
    wish: str | None,
) -> None:
    engine = kind(api, child, manifest_of(tenants.get(child), wish), manager)
    mark = operator.cluster.audit.mark()
    deadline = time.monotonic() + FIGHT_SECONDS
    rounds = 0
    while time.monotonic() < deadline:
        engine.reconcile()
        rounds += 1
        assert probe(api, child) == WEST
        time.sleep(PAUSE_SECONDS)
    assert rounds > 20
    mine = writes(operator, mark, child)
    if kind is PlainApply:  # it was told who owns the label, and wrote nothing
        assert engine.refused == rounds
        assert mine == []
        assert tenants.events(child, Reason.LABEL_CONTESTED) == []
        return
    # At once, then after 1, 2 and 4 seconds.
    assert 2 <= len(mine) <= 6, len(mine)
    growing = pauses(mine)[1:]
    assert all(late > 1.3 * early for early, late in itertools.pairwise(growing)), growing
    (event,) = tenants.events(child, Reason.LABEL_CONTESTED)
    assert manager in event["message"].partition(" keeps changing the scheduling class back")[0]
    # The fight is over: the next turn of the controller is the last.
    tenants.settle({child: WEST})
    after = len(writes(operator, mark, child))
    assert after <= len(mine) + 1


# --- what the documentation says ------------------------------------------------------------------


def documented() -> dict[str, Json]:
    """The YAML documents in the code blocks of the documentation, by kind."""
    blocks = DOCUMENT.read_text(encoding="utf-8").split("```yaml\n")[1:]
    found = [yaml.safe_load(block.partition("```")[0]) for block in blocks]
    return {document["kind"]: document for document in found}


def ignored_by(kind: str, target: str) -> list[str]:
    """The JSON pointers that a document tells an engine to ignore in objects of one kind."""
    spec = documented()[kind]["spec"]
    if kind == "HelmRelease":
        rules = spec["driftDetection"]["ignore"]
        return [
            path for rule in rules if rule["target"]["kind"] == target for path in rule["paths"]
        ]
    rules = spec["ignoreDifferences"]
    return [path for rule in rules if rule["kind"] == target for path in rule["jsonPointers"]]


def without(obj: Json, pointers: list[str]) -> Json:
    """The object as an engine compares it: what is ignored counts for nothing."""
    copy: Any = yaml.safe_load(yaml.safe_dump(obj))
    for pointer in pointers:
        parent, _, _ = pointer.rpartition("/")
        key = pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
        holder = resolve_pointer(copy, parent, None)
        if isinstance(holder, dict):
            holder.pop(key, None)
    for field in ("labels", "annotations"):
        if not copy["metadata"].get(field):
            set_pointer(copy, f"/metadata/{field}", {})
    return dict(copy)


@pytest.mark.parametrize("kind", ["HelmRelease", "Application"])
def test_the_documented_rules_hide_all_that_is_ours_and_nothing_else(
    tenants: Tenants, child: str, kind: str
) -> None:
    tenants.annotate(child, {names.REQUESTED_CLASS: EAST, "example.com/foreign": "1"})
    tenants.label(child, {"foreign": "1"})
    eventually("the wish is kept", lambda: tenants.wish_of(child) == EAST)
    live = tenants.get(child)
    compared = without(live, ignored_by(kind, "Namespace"))
    ours = [key for key in (*labels(live), *annotations(live)) if key.startswith(names.PREFIX)]
    assert len(ours) == 6, ours
    left = {*labels(compared), *annotations(compared)}
    assert left == {*labels(live), *annotations(live)} - set(ours)


@pytest.mark.parametrize("kind", ["HelmRelease", "Application"])
def test_the_documented_rules_hide_what_the_operator_keeps_on_a_class(
    api: Api, tenants: Tenants, kind: str
) -> None:
    made = tenants.create_class()
    path = f"/apis/{names.API_VERSION}/{names.PLURAL}/{made}"
    before = api.get(path)
    tenants.create(wants=made)
    eventually("the class is in use", lambda: "finalizers" in api.get(path)["metadata"])
    live = api.get(path)
    assert names.IN_USE in labels(live)
    compared = without(live, ignored_by(kind, names.KIND))
    assert labels(compared) == labels(before) == {}
    assert "finalizers" not in compared["metadata"]
    assert compared["spec"] == before["spec"]
