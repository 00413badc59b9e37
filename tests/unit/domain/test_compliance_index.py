"""Counts of violations that follow events are those of counting everything anew."""

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from schedclass.domain import names
from schedclass.domain.compliance import (
    COUNTED_KINDS,
    ObservedPod,
    ViolationKind,
    parse_observed_pod,
)
from schedclass.domain.compliance_index import ComplianceIndex, NewBreaches, PodCounts
from schedclass.domain.findings import Reason
from schedclass.domain.insight.checks import pod_violations
from schedclass.domain.insight.snapshot import (
    NamespaceRecord,
    Snapshot,
    parse_node_record,
    parse_pod_record,
)
from schedclass.domain.insight.world import Policy, World
from schedclass.domain.namespaces import Namespace
from schedclass.domain.nodes import Node, parse_node
from schedclass.domain.scheduling import Pod
from schedclass.domain.schedulingclass import parse_class
from tests.differential import clusters

Json = Any

CLASSES = ("one", "two")
CHANGES = 160


class Life:
    """A cluster that changes at random, and the index that is told of it."""

    def __init__(self, rng: Random, *, exempt_daemon_sets: bool) -> None:
        self.rng = rng
        self.policy = Policy(excluded=(), exempt_daemon_sets=exempt_daemon_sets)
        self.index = ComplianceIndex(
            default_label_keys=names.LINEAGE_LABELS, exempt_daemon_sets=exempt_daemon_sets
        )
        self.objects: dict[str, dict[str, Json]] = {
            kind: {} for kind in ("nodes", "namespaces", "classes", "pods")
        }
        self.versions = 0

    def change(self) -> None:
        rng = self.rng
        rng.choice(
            [self._pod] * 12
            + [self._pod_goes, self._node, self._node, self._namespace, self._class, self._class]
            + ([self._node_goes, self._class_goes] if rng.random() < 0.2 else [])
        )()
        if rng.random() < 0.3:
            self.index.begin()
        self.index.judge(rng.randint(0, 3))

    def settle(self) -> None:
        while self.index.begin():
            while self.index.left:
                self.index.judge(2)
        self.index.finish()

    def _pod(self) -> None:
        name = f"p{self.rng.randint(0, 14)}"
        raw = clusters.running_pod(name, self.rng)
        if self.rng.random() < 0.2:
            raw["spec"].pop("nodeName")
        if self.rng.random() < 0.7:
            raw["spec"]["schedulerName"] = names.SCHEDULER_NAME
        annotation = self.rng.choice([None, "one", "one", "two", "gone"])
        annotations = {names.CLASS_KEY: annotation} if annotation else {}
        if self.rng.random() < 0.1:
            annotations[names.MIRROR_POD] = "x"
        raw["metadata"]["annotations"] = annotations
        if self.rng.random() < 0.2:
            raw["metadata"]["ownerReferences"] = [
                {"kind": "DaemonSet", "name": "d", "controller": True}
            ]
        self.objects["pods"][name] = raw
        self.index.put_pod(parse_observed_pod(raw))

    def _pod_goes(self) -> None:
        name = f"p{self.rng.randint(0, 14)}"
        self.objects["pods"].pop(name, None)
        self.index.remove_pod(name)

    def _node(self) -> None:
        name = f"n{self.rng.randint(0, 4)}"
        raw = self.objects["nodes"][name] = clusters.node(name, self.rng)
        self.index.put_node(parse_node(raw))

    def _node_goes(self) -> None:
        name = f"n{self.rng.randint(0, 4)}"
        self.objects["nodes"].pop(name, None)
        self.index.remove_node(name)

    def _namespace(self) -> None:
        name = self.rng.choice(clusters.NAMESPACES)
        labels = clusters.pairs(0.6, clusters.NAMESPACE_LABELS)(self.rng)
        class_name = self.rng.choice(["one", "one", "one", "two", None])
        self.objects["namespaces"][name] = (labels, class_name)
        self.index.put_namespace(name, labels, class_name)

    def _class(self) -> None:
        name = self.rng.choice(CLASSES)
        self.versions += 1
        spec = clusters.class_spec(self.rng)
        if self.rng.random() < 0.05:
            spec["nodeSelector"] = {"not a key": ""}
        metadata = {"name": name, "uid": name, "resourceVersion": str(self.versions)}
        raw = self.objects["classes"][name] = {"metadata": metadata, "spec": spec}
        self.index.put_class(parse_class(raw))

    def _class_goes(self) -> None:
        name = self.rng.choice(CLASSES)
        self.objects["classes"].pop(name, None)
        self.index.remove_class(name)

    def counted_anew(self) -> dict[str, PodCounts]:
        """What the command line finds in the objects as they are now."""
        world = World(
            Snapshot(
                nodes=tuple(map(parse_node_record, self.objects["nodes"].values())),
                namespaces=tuple(
                    NamespaceRecord(Namespace(name, uid=name, label=class_name), labels)
                    for name, (labels, class_name) in self.objects["namespaces"].items()
                ),
                classes=tuple(map(parse_class, self.objects["classes"].values())),
                pods=tuple(map(parse_pod_record, self.objects["pods"].values())),
            ),
            self.policy,
        )
        living = [pod for pods in world.pods_by_namespace.values() for pod in pods]
        pods = Counter(world.class_name_of(pod) for pod in living)
        found = pod_violations(world)
        counts = {}
        for name in CLASSES:
            of_class = [found.get(p.key, ()) for p in living if world.class_name_of(p) == name]
            kinds = Counter(kind for some in of_class for kind in {v.kind for v in some})
            by_kind = {kind: kinds[kind] for kind in COUNTED_KINDS}
            counts[name] = PodCounts(pods[name], sum(map(bool, of_class)), by_kind)
        return counts


@pytest.mark.parametrize("seed", range(40))
def test_counts_that_follow_events_are_those_of_counting_anew(seed: int) -> None:
    life = Life(Random(seed), exempt_daemon_sets=bool(seed % 2))
    for _ in range(4):
        for _ in range(CHANGES // 4):
            life.change()
        life.settle()
        expected = life.counted_anew()
        assert {name: life.index.counts(name) for name in CLASSES} == expected
        known = {name for name, raw in life.objects["pods"].items() if is_living(raw)}
        assert len(life.index) == len(known)


def is_living(raw: Json) -> bool:
    return raw["status"]["phase"] not in ("Succeeded", "Failed")


def test_the_random_lives_meet_every_kind_of_violation() -> None:
    met: Counter[ViolationKind] = Counter()
    for seed in range(40):
        life = Life(Random(seed), exempt_daemon_sets=False)
        for _ in range(CHANGES):
            life.change()
        life.settle()
        for name in CLASSES:
            met.update(life.index.counts(name).by_kind)
    assert all(met[kind] > 3 for kind in COUNTED_KINDS), met


# --- one life in a few words ----------------------------------------------------------------------


WEST = {"nodeSelector": {"region": "west"}}


def small(spec: Json) -> ComplianceIndex:
    index = ComplianceIndex(default_label_keys=())
    index.put_namespace("shop", {}, "dc")
    index.put_class(parse_class({"metadata": {"name": "dc"}, "spec": spec}))
    for name, region in (("n1", "west"), ("n2", "east")):
        index.put_node(Node(name, labels={"region": region}))
    return index


def running(name: str, node: str, *, scheduler: str = names.SCHEDULER_NAME) -> ObservedPod:
    pod = Pod(name, "shop", name, labels={"app": "web"}, node_name=node, class_annotation="dc")
    return ObservedPod(pod, scheduler)


def judged(index: ComplianceIndex) -> tuple[NewBreaches, ...]:
    told = index.judge(index.begin())
    index.finish()
    return told


def test_a_relabelled_node_makes_its_pods_violate_and_heals_them() -> None:
    index = small(WEST)
    for name in ("a", "b"):
        index.put_pod(running(name, "n1"))
    assert judged(index) == ()
    index.put_node(Node("n1", labels={"region": "east"}))
    told = judged(index)
    assert [new.seen.pod.name for new in told] == ["a", "b"]
    assert told[0].breaches[0].finding.reason is Reason.NODE_NOT_ALLOWED
    assert (index.counts("dc").pods, index.counts("dc").violating) == (2, 2)
    assert judged(index) == ()  # said once
    index.put_node(Node("n1", labels={"region": "west"}))
    assert judged(index) == ()
    assert index.counts("dc").violating == 0


def test_a_pod_counts_once_and_in_each_of_its_kinds() -> None:
    index = small(WEST)
    index.put_pod(running("a", "n2", scheduler="default-scheduler"))
    judged(index)
    counts = index.counts("dc")
    assert counts.violating == 1
    assert {kind for kind, count in counts.by_kind.items() if count} == {
        ViolationKind.NODE,
        ViolationKind.BYPASS,
    }


def test_only_classes_whose_counts_changed_are_told() -> None:
    index = small(WEST)
    index.put_pod(running("a", "n1"))
    judged(index)
    assert index.take_changed() == {"dc"}
    cls = parse_class({"metadata": {"name": "dc"}, "spec": WEST})
    index.put_class(replace(cls, status={"observedGeneration": 1}))
    index.put_node(Node("n1", labels={"region": "west"}, ready=True))
    assert index.begin() == 0
    assert index.take_changed() == frozenset()


def test_the_end_of_a_pod_ends_its_violation_without_another_round() -> None:
    index = small(WEST)
    index.put_pod(running("a", "n2"))
    judged(index)
    index.remove_pod("a")
    assert index.counts("dc") == PodCounts()


def test_pods_of_other_classes_are_free_once_what_repelled_them_is_gone() -> None:
    index = small({})
    index.put_pod(running("a", "n1"))
    index.put_namespace("bank", {}, "alone")
    term = {
        "topologyKey": "region",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "namespaces": ["shop"],
    }
    alone = {"podAntiAffinity": {clusters.REQUIRED: [term]}}
    index.put_class(parse_class({"metadata": {"name": "alone"}, "spec": alone}))
    guard = replace(running("guard", "n1").pod, namespace="bank", class_annotation="alone")
    index.put_pod(ObservedPod(guard, names.SCHEDULER_NAME))
    assert {new.seen.pod.name for new in judged(index)} == {"a", "guard"}
    assert index.counts("dc").by_kind[ViolationKind.AFFINITY] == 1
    index.remove_class("alone")
    judged(index)
    assert index.counts("dc").violating == index.counts("alone").violating == 0


def test_a_class_is_not_judged_until_a_round_has_ended_since_it_came_or_changed() -> None:
    index = small(WEST)
    for name in ("a", "b"):
        index.put_pod(running(name, "n1"))
    assert not index.is_judged("dc")
    index.begin()
    index.judge(1)
    assert not index.is_judged("dc")
    index.judge(1)
    index.finish()
    assert index.is_judged("dc")
    index.put_class(parse_class({"metadata": {"name": "dc"}, "spec": {}}))
    assert not index.is_judged("dc")
    judged(index)
    assert index.is_judged("dc")
    index.remove_class("dc")
    assert not index.is_judged("dc")
