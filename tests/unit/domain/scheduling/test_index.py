"""The index after any sequence of events is the index built anew from what is there."""

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from schedclass.domain.nodes import Node, parse_node
from schedclass.domain.scheduling import (
    Cluster,
    CompiledClass,
    Decisions,
    Pod,
    Scope,
    compile_class,
    parse_pod,
)
from schedclass.domain.schedulingclass import parse_class
from tests.differential import clusters

NODES = [f"n{i}" for i in range(4)]
UIDS = [f"p{i}" for i in range(6)]
FEW_PLANS = 2


def new_cluster() -> Cluster:
    return Cluster(default_label_keys=clusters.FILL_KEYS, own_terms=True)


@dataclass
class World:
    """What is there, kept in the plainest way, beside an index that follows event by event."""

    cluster: Cluster = field(default_factory=new_cluster)
    nodes: dict[str, Node] = field(default_factory=dict)
    namespaces: dict[str, tuple[dict[str, str], str | None]] = field(default_factory=dict)
    classes: dict[str, CompiledClass] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    assumed: set[str] = field(default_factory=set)
    versions: int = 0

    def __post_init__(self) -> None:
        """Ask from the start, so that the index has counts to keep up; one asker forgets early."""
        self.decisions = [
            Decisions(self.cluster, Scope.MERGED),
            Decisions(self.cluster, Scope.CLASS, max_plans=FEW_PLANS),
        ]

    @classmethod
    def populated(cls, rng: Random) -> "World":
        """A cluster that has everything, in which pods were decided on."""
        world = cls()
        for make in (world.put_class, world.put_namespace, world.put_node, world.put_pod):
            for _ in range(8):
                make(rng)
        return world

    def rebuilt(self) -> Cluster:
        """The same, in another order, without a past."""
        fresh = new_cluster()
        for pod in reversed(self.pods.values()):
            fresh.put_pod(pod)
        for cls in self.classes.values():
            fresh.put_class(cls)
        for node in self.nodes.values():
            fresh.put_node(node)
        for name, (labels, class_name) in self.namespaces.items():
            fresh.put_namespace(name, labels, class_name)
        return fresh

    def apply(self, event: str, rng: Random) -> None:
        getattr(self, event)(rng)

    def put_node(self, rng: Random) -> None:
        node = parse_node(clusters.node(rng.choice(NODES), rng))
        self.nodes[node.name] = node
        self.cluster.put_node(node)

    def remove_node(self, rng: Random) -> None:
        name = rng.choice(NODES)
        self.nodes.pop(name, None)
        self.cluster.remove_node(name)

    def put_namespace(self, rng: Random) -> None:
        name = rng.choice(clusters.NAMESPACES)
        labels = clusters.pairs(0.6, clusters.NAMESPACE_LABELS)(rng)
        class_name = rng.choice(["one", "two", None])
        self.namespaces[name] = labels, class_name
        self.cluster.put_namespace(name, labels, class_name)

    def remove_namespace(self, rng: Random) -> None:
        name = rng.choice(clusters.NAMESPACES)
        self.namespaces.pop(name, None)
        self.cluster.remove_namespace(name)

    def put_class(self, rng: Random) -> None:
        self.versions += 1
        metadata = {"name": rng.choice(["one", "two"]), "resourceVersion": str(self.versions)}
        spec = clusters.class_spec(rng) if rng.random() < 0.9 else {"nodeSelector": {"a b": ""}}
        compiled = compile_class(parse_class({"metadata": metadata, "spec": spec}))
        self.classes[compiled.name] = compiled
        self.cluster.put_class(compiled)

    def remove_class(self, rng: Random) -> None:
        name = rng.choice(["one", "two"])
        self.classes.pop(name, None)
        self.cluster.remove_class(name)

    def put_pod(self, rng: Random) -> None:
        pod = a_pod(rng.choice(UIDS), rng)
        self.cluster.put_pod(pod)
        if pod.uid in self.assumed and not pod.node_name:
            pod = pod.on(self.pods[pod.uid].node_name)
        else:
            self.assumed.discard(pod.uid)
        if pod.node_name and not pod.finished:
            self.pods[pod.uid] = pod
        else:
            self.pods.pop(pod.uid, None)
            self.assumed.discard(pod.uid)

    def remove_pod(self, rng: Random) -> None:
        uid = rng.choice(UIDS)
        self.cluster.remove_pod(uid)
        self.pods.pop(uid, None)
        self.assumed.discard(uid)

    def assume(self, rng: Random) -> None:
        pod, node_name = a_pod(rng.choice(UIDS), rng), rng.choice(NODES)
        self.cluster.assume(pod, node_name)
        known = self.pods.get(pod.uid)
        if not pod.finished and (known is None or known.node_name != node_name):
            self.pods[pod.uid] = pod.on(node_name)
            self.assumed.add(pod.uid)

    def forget(self, rng: Random) -> None:
        uid = rng.choice(UIDS)
        self.cluster.forget(uid)
        if uid in self.assumed:
            self.assumed.discard(uid)
            self.pods.pop(uid)


EVENTS = [name for name in vars(World) if name in {
    "put_node", "remove_node", "put_namespace", "remove_namespace", "put_class", "remove_class",
    "put_pod", "remove_pod", "assume", "forget",
}]  # fmt: skip
histories = st.lists(
    st.tuples(st.sampled_from([*EVENTS, "put_node", "put_pod"]), st.integers(0, 2**16)),
    min_size=1,
    max_size=12,
)
seeds = st.integers(0, 2**16)


def a_pod(uid: str, rng: Random) -> Pod:
    pod = clusters.running_pod(uid, rng)
    if rng.random() < 0.2:
        del pod["spec"]["nodeName"]
    if rng.random() < 0.1:
        owner = {"kind": "DaemonSet", "name": "d", "controller": True}
        pod["metadata"]["ownerReferences"] = [owner]
    return parse_pod(pod)


def incoming(rng: Random) -> Pod:
    return parse_pod(clusters.pod(rng.choice(["new", *UIDS]), rng))


def everything(decisions: Decisions, pod: Pod) -> tuple[Any, ...]:
    """All that can be asked about a pod."""
    reasons: dict[str, Any] = {}
    passing = decisions.filter(pod, NODES)
    assert decisions.filter(pod, NODES, reasons) == passing
    scores = decisions.score(pod, passing)
    # Whose term it is that repels a pod first is open where several do.
    told = {name: (why.plugin, why.reason, why.preemptible) for name, why in reasons.items()}
    explained = {
        name: {plugin: why.reason for plugin, why in whys.items()}
        for name, whys in decisions.explain(pod, NODES).items()
    }
    alone = [name for name in NODES if decisions.why_not(pod, name) is None]
    assert alone == passing
    return passing, told, explained, scores


def same(decisions: list[Decisions], fresh: Cluster, pod: Pod) -> None:
    for known, scope in zip(decisions, (Scope.MERGED, Scope.CLASS), strict=True):
        assert everything(known, pod) == everything(Decisions(fresh, scope), pod)


@settings(max_examples=60, deadline=None)
@given(history=histories, seed=seeds)
def test_any_history_leaves_the_index_as_if_built_anew(
    history: list[tuple[str, int]], seed: int
) -> None:
    rng = Random(seed)
    world = World.populated(rng)
    pods = [incoming(rng) for _ in range(3)]
    for pod in pods:
        same(world.decisions, world.rebuilt(), pod)
    for step, (event, number) in enumerate(history):
        world.apply(event, Random(number))
        same(world.decisions, world.rebuilt(), pods[step % len(pods)])
    for pod in pods:
        same(world.decisions, world.rebuilt(), pod)


@settings(max_examples=40, deadline=None)
@given(history=histories, seed=seeds)
def test_a_supposition_holds_inside_its_context_and_leaves_no_trace(
    history: list[tuple[str, int]], seed: int
) -> None:
    rng = Random(seed)
    world = World.populated(rng)
    pod = incoming(rng)
    same(world.decisions, world.rebuilt(), pod)
    for event, number in history:
        world.apply(event, Random(number))
    extra = replace(a_pod("extra", rng), node_name=rng.choice(NODES), finished=False)
    gone = rng.sample(UIDS, 3)
    supposed = {uid: pod for uid, pod in world.pods.items() if uid not in gone}
    supposed[extra.uid] = extra
    other = replace(world, cluster=new_cluster(), pods=supposed)

    version = world.cluster.version
    with world.cluster.supposing(present=[extra], absent=gone):
        same(world.decisions, other.rebuilt(), pod)
    same(world.decisions, world.rebuilt(), pod)
    assert world.cluster.version == version


@settings(max_examples=20, deadline=None)
@given(history=histories, seed=seeds)
def test_nothing_is_kept_for_what_is_gone(history: list[tuple[str, int]], seed: int) -> None:
    rng = Random(seed)
    world = World.populated(rng)
    for event, number in history:
        world.apply(event, Random(number))
        for decisions in world.decisions:
            everything(decisions, incoming(rng))
    assert world.decisions[-1].plans <= FEW_PLANS
    for uid in list(world.pods):
        world.cluster.remove_pod(uid)
    for decisions in world.decisions:
        decisions.close()

    assert len(world.cluster.pods) == 0
    assert len(world.cluster.carried) == 0
    assert len(world.cluster.counters) == 0
    assert world.cluster.topology.views == 0
