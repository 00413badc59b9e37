"""What a report shows of a snapshot: tree, classes and their reach, nodes by zone, violations.

Everything is bounded, and what is left out is counted: a page that is too big to open helps nobody.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from schedclass.domain import names
from schedclass.domain.compliance import ViolationKind
from schedclass.domain.insight.checks import CheckReport, Violation, check, pod_violations
from schedclass.domain.insight.report_tree import ReportTree, report_tree
from schedclass.domain.insight.snapshot import NodeRecord, Part
from schedclass.domain.insight.world import Health, World
from schedclass.domain.nodes import Node
from schedclass.domain.podfields import ClassSpec


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is shown.

    Attributes:
        namespaces: in the tree.
        depth: levels of the tree.
        alike: siblings of the tree that differ in name only, before they are folded.
        classes, nodes, violations: of each kind.
        names: names in one list, such as the nodes of a class.
    """

    namespaces: int = 15_000
    depth: int = 64
    alike: int = 10
    classes: int = 500
    nodes: int = 1_000
    violations: int = 2_000
    names: int = 200


@dataclass(frozen=True, slots=True)
class Listed:
    """Some names of many.

    Attributes:
        names: those that are shown, in order.
        total: how many there are.
    """

    names: tuple[str, ...] = ()
    total: int = 0

    @property
    def left_out(self) -> int:
        """How many are not shown."""
        return self.total - len(self.names)


@dataclass(frozen=True, slots=True)
class ClassReach:
    """What one class reaches.

    Attributes:
        name: its name.
        health: how it is.
        asks: what it asks of nodes and pods, a phrase for each constraint.
        troubles: sentences on what is wrong with the class itself.
        namespaces: how many are bound to it.
        deciding: namespaces whose own request decides for themselves and what is below them.
        overridden: namespaces that wish for it and may not have it.
        nodes: nodes that its node constraints allow; None where that cannot be told, as the nodes
            are not known, or the class is not there or not valid.
        ready: how many of them take new pods.
        zones: zones of these nodes.
        pods: pods of the class that run or wait; None where that is not known.
        pending: those of them that wait for a node.
        violating: those of them that break it.
    """

    name: str
    health: Health
    asks: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()
    namespaces: int = 0
    deciding: Listed = field(default_factory=Listed)
    overridden: Listed = field(default_factory=Listed)
    nodes: Listed | None = None
    ready: int = 0
    zones: Listed = field(default_factory=Listed)
    pods: int | None = None
    pending: int = 0
    violating: int = 0


@dataclass(frozen=True, slots=True)
class ClassPods:
    """Running pods of one class in one place.

    Attributes:
        class_name: the class, None for pods without one.
        pods: how many.
        violating: those of them that break the class.
    """

    class_name: str | None
    pods: int
    violating: int = 0


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """A node and the pods on it, by class."""

    node: Node
    pods: int
    by_class: tuple[ClassPods, ...] = ()


@dataclass(frozen=True, slots=True)
class Zone:
    """The nodes of one zone.

    Attributes:
        name: value of the zone label, None for nodes without it.
        region: value of the region label, None for nodes without it.
        nodes: those that are shown, by name.
        total: how many there are.
        pods: pods that run on them.
        by_class: these pods by class.
    """

    name: str | None
    region: str | None
    nodes: tuple[NodeLoad, ...]
    total: int
    pods: int
    by_class: tuple[ClassPods, ...]


@dataclass(frozen=True, slots=True)
class ViolationGroup:
    """Violations of one kind: those that are shown, and how many there are."""

    kind: ViolationKind
    violations: tuple[Violation, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a page shows.

    Attributes:
        origin: where the snapshot comes from.
        unknown: parts that it rests on and were not seen whole, each with one sentence why.
        tree: the tenants.
        classes: by name.
        more_classes: how many are left out.
        zones: by region and name; nodes without a zone last.
        elsewhere: running pods on nodes that the snapshot does not hold.
        violations: by kind.
        unjudged: what could not be judged, a sentence each.
        violating: how many violations there are.
        totals: how many classes, namespaces, nodes and pods were seen, by part; None where none
            was, and there may be some all the same.
    """

    origin: str
    unknown: Mapping[Part, str]
    tree: ReportTree
    classes: tuple[ClassReach, ...]
    more_classes: int
    zones: tuple[Zone, ...]
    elsewhere: int
    violations: tuple[ViolationGroup, ...]
    unjudged: tuple[str, ...]
    violating: int
    totals: Mapping[Part, int | None]


DEFAULT_LIMITS: Final = Limits()


def report(world: World, limits: Limits = DEFAULT_LIMITS) -> Report:
    """Put together what a page shows."""
    found = check(world)
    listed = (*found.violations, *found.notes)
    classes = _Reaches(world, found, limits)
    shown = classes.names[: limits.classes]
    loads = _Loads(world, limits.nodes)
    return Report(
        origin=world.snapshot.origin,
        unknown={
            part: why
            for part, why in world.snapshot.unknown.items()
            if part is not Part.WORKLOADS  # nothing in a report rests on them
        },
        tree=report_tree(world, limit=limits.namespaces, depth=limits.depth, alike=limits.alike),
        classes=tuple(map(classes.reach, shown)),
        more_classes=len(classes.names) - len(shown),
        zones=tuple(loads.zones()),
        elsewhere=loads.elsewhere,
        violations=tuple(_grouped(listed, limits.violations)),
        unjudged=found.unjudged,
        violating=len(listed),
        totals=_totals(world, len(classes.names)),
    )


def _totals(world: World, classes: int) -> dict[Part, int | None]:
    seen = {
        Part.CLASSES: classes,
        Part.NAMESPACES: len(world.namespaces),
        Part.NODES: len(world.nodes),
        Part.PODS: sum(map(len, world.pods_by_namespace.values())),
    }
    return {part: seen[part] if seen[part] or world.snapshot.knows(part) else None for part in seen}


def _grouped(violations: Iterable[Violation], limit: int) -> Iterator[ViolationGroup]:
    by_kind: dict[ViolationKind, list[Violation]] = {}
    for violation in violations:
        by_kind.setdefault(violation.kind, []).append(violation)
    left = limit
    for kind in ViolationKind:
        found = by_kind.get(kind)
        if found:
            shown = tuple(found[:left])
            left -= len(shown)
            yield ViolationGroup(kind, shown, len(found))


class _Reaches:
    """The reach of each class, from one pass over namespaces and pods."""

    def __init__(self, world: World, found: CheckReport, limits: Limits) -> None:
        self._world = world
        self._limit = limits.names
        self._deciding: dict[str, set[str]] = {}
        self._overridden: dict[str, list[str]] = {}
        for name in sorted(world.namespaces):
            effective = world.effective(name)
            if effective.class_name is not None:
                self._deciding.setdefault(effective.class_name, set()).add(effective.origin)
            wish = effective.own_request
            if wish is not None and wish != effective.class_name:
                self._overridden.setdefault(wish, []).append(name)
        self._pods: Counter[str] = Counter()
        self._pending: Counter[str] = Counter()
        for record in (r for records in world.pods_by_namespace.values() for r in records):
            class_name = world.class_name_of(record)
            if class_name is not None:
                self._pods[class_name] += 1
                self._pending[class_name] += record.pending
        self._violating = Counter(v[0].class_name for v in pod_violations(world).values())
        self._troubles: dict[str, list[str]] = {}
        for violation in found.violations:
            if violation.kind is ViolationKind.CLASS:
                self._troubles.setdefault(violation.class_name, []).append(str(violation.finding))
        self.names = sorted({*world.classes, *self._deciding, *self._overridden, *self._pods})

    def reach(self, name: str) -> ClassReach:
        world = self._world
        cls = world.classes.get(name)
        spec = cls.spec if cls is not None else None
        nodes = world.matching_nodes(name) if spec and world.snapshot.knows(Part.NODES) else None
        seen = bool(self._pods[name]) or world.snapshot.knows(Part.PODS)
        return ClassReach(
            name=name,
            health=world.health(name),
            asks=tuple(_asks(spec)) if spec is not None else (),
            troubles=tuple(self._troubles.get(name, ())),
            namespaces=len(world.bound.get(name, ())),
            deciding=self._listed(sorted(self._deciding.get(name, ()))),
            overridden=self._listed(self._overridden.get(name, [])),
            nodes=None if nodes is None else self._listed([r.node.name for r in nodes]),
            ready=sum(record.node.takes_pods for record in nodes or ()),
            zones=self._listed(sorted({zone for r in nodes or () if (zone := _zone_of(r)[1])})),
            pods=self._pods[name] if seen else None,
            pending=self._pending[name],
            violating=self._violating[name],
        )

    def _listed(self, found: list[str]) -> Listed:
        return Listed(tuple(found[: self._limit]), len(found))


def _asks(spec: ClassSpec) -> Iterator[str]:
    for key, value in spec.node_selector.items():
        yield f"nodes with {key}={value}"
    if spec.node_affinity is not None:
        if spec.node_affinity.required is not None:
            yield "nodes that its node affinity requires"
        if spec.node_affinity.preferred:
            yield "nodes that its node affinity prefers"
    for affinity, how in ((spec.pod_affinity, "together"), (spec.pod_anti_affinity, "apart")):
        if affinity is not None:
            for term in affinity.required:
                yield f"pods {how} per {term.topology_key}"
            for wish in affinity.preferred:
                yield f"pods {how} per {wish.pod_affinity_term.topology_key}, if possible"
    for spread in spec.topology_spread_constraints:
        soft = ", if possible" if spread.when_unsatisfiable == "ScheduleAnyway" else ""
        yield f"pods spread over {spread.topology_key}, by {spread.max_skew} uneven at most{soft}"


class _Loads:
    """Running pods by node, zone and class."""

    def __init__(self, world: World, limit: int) -> None:
        self._world = world
        self._limit = limit
        self._pods: dict[str, Counter[str | None]] = {}
        self._violating: dict[str, Counter[str | None]] = {}
        self.elsewhere = 0
        broken = pod_violations(world)
        for record in (r for records in world.pods_by_namespace.values() for r in records):
            if not record.running:
                continue
            node, class_name = record.pod.node_name, world.class_name_of(record)
            self.elsewhere += node not in world.nodes
            self._pods.setdefault(node, Counter())[class_name] += 1
            if record.key in broken:
                self._violating.setdefault(node, Counter())[class_name] += 1

    def zones(self) -> Iterator[Zone]:
        found: dict[tuple[str | None, str | None], list[NodeRecord]] = {}
        for name in sorted(self._world.nodes):
            record = self._world.nodes[name]
            found.setdefault(_zone_of(record), []).append(record)
        chosen = self._chosen()
        for region, zone in sorted(
            found, key=lambda key: (key[1] is None, key[0] or "", key[1] or "")
        ):
            records = found[region, zone]
            loads = tuple(self._load(r.node) for r in records if r.node.name in chosen)
            by_class = self._by_class(record.node.name for record in records)
            pods = sum(held.pods for held in by_class)
            yield Zone(zone, region, loads, len(records), pods, by_class)

    def _chosen(self) -> set[str]:
        """Names of the nodes that are shown: those with violations first, then by name."""
        order = sorted(self._world.nodes, key=lambda name: (name not in self._violating, name))
        return set(order[: self._limit])

    def _load(self, node: Node) -> NodeLoad:
        by_class = self._by_class((node.name,))
        return NodeLoad(node, sum(held.pods for held in by_class), by_class)

    def _by_class(self, nodes: Iterable[str]) -> tuple[ClassPods, ...]:
        pods: Counter[str | None] = Counter()
        violating: Counter[str | None] = Counter()
        for node in nodes:
            pods.update(self._pods.get(node, ()))
            violating.update(self._violating.get(node, ()))
        order = sorted(pods, key=lambda name: (name is None, name or ""))
        return tuple(ClassPods(name, pods[name], violating[name]) for name in order)


def _zone_of(record: NodeRecord) -> tuple[str | None, str | None]:
    """Region and zone."""
    labels = record.node.labels
    return labels.get(names.REGION_LABEL), labels.get(names.ZONE_LABEL)
