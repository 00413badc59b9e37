"""The tenants as a tree, each with its class, where that comes from, pods and violations."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from schedclass.domain.insight.checks import pod_violations
from schedclass.domain.insight.snapshot import Part
from schedclass.domain.insight.world import Health, World


class Origin(StrEnum):
    """Where the class of a namespace comes from."""

    OWN = "own"
    INHERITED = "inherited"
    NONE = "none"
    EXCLUDED = "excluded"


@dataclass(frozen=True, slots=True)
class TreeRow:
    """One namespace of the tree; rows come parents first, siblings by name.

    Attributes:
        name: its name.
        parent: the namespace above it, empty for a root.
        depth: how many are above it.
        class_name: the class that applies, None for none.
        origin: where the class comes from.
        from_namespace: the ancestor that gives an inherited class, else empty.
        ignored: its own wish where an ancestor overrides it, else None.
        health: how the class is, None without one.
        pods: pods that run or wait; None where that is not known.
        pending: those of them that have no node.
        violations: how many of its pods break the class; None where that is not known.
        implied: see `NamespaceRecord.implied`.
        stray: what is said of its keys that only look like ours, empty for none.
        folded: how many namespaces below it were left out.
    """

    name: str
    parent: str = ""
    depth: int = 0
    class_name: str | None = None
    origin: Origin = Origin.NONE
    from_namespace: str = ""
    ignored: str | None = None
    health: Health | None = None
    pods: int | None = None
    pending: int | None = None
    violations: int | None = None
    implied: bool = False
    stray: str = ""
    folded: int = 0

    @property
    def troubled(self) -> bool:
        """Whether somebody should look at it."""
        healthy = self.health in (None, Health.READY, Health.UNKNOWN)
        return bool(self.violations or self.ignored or self.stray) or not healthy


@dataclass(frozen=True, slots=True)
class TreeFilter:
    """What of the tree is shown.

    Attributes:
        root: only this namespace and what is below it; empty for all.
        class_name: only namespaces of this class, and the way to them.
        troubled: only namespaces with violations, overridden wishes, keys that only look like ours,
            or an unhealthy class.
        depth: how many levels; None for all.
        fold: siblings without anything notable beyond this number are folded; None folds none.
        everything: also excluded namespaces, and roots without class and children.
    """

    root: str = ""
    class_name: str = ""
    troubled: bool = False
    depth: int | None = None
    fold: int | None = None
    everything: bool = False


def tenant_tree(world: World, wanted: TreeFilter) -> tuple[TreeRow, ...]:
    """The rows of the tree that are wanted.

    Nothing here recurses: owners can be chained deeper than Python's stack.
    """
    forest = _Forest(world)
    roots = [wanted.root] if wanted.root else _roots(world)
    rows: list[TreeRow] = []
    for root in roots:
        rows.extend(forest.rows_below(root, wanted))
    return tuple(rows)


def _roots(world: World) -> list[str]:
    tree = world.tree
    roots = sorted(ns.name for ns in tree if tree.parent_of(ns) is None)
    reached = {name for root in roots for name in tree.descendants(root)}
    for name in sorted(ns.name for ns in tree):
        if name not in reached:
            roots.append(_head_of_cycle(world, name))
            reached.update(tree.descendants(roots[-1]))
    return roots


def _head_of_cycle(world: World, name: str) -> str:
    """Who stands in for the root where the way up runs into a cycle: its first member by name."""
    tree = world.tree
    way = [name]
    while True:
        ns = tree.get(way[-1])
        above = tree.parent_of(ns) if ns is not None else None
        if above is None:
            return way[-1]
        if above in way:
            return min(way[way.index(above) :])
        way.append(above)


class _Forest:
    def __init__(self, world: World) -> None:
        self._world = world
        self._knows_pods = world.snapshot.knows(Part.PODS)
        self._violating: dict[str, int] = {}
        for violations in pod_violations(world).values():
            namespace = violations[0].subject.namespace
            self._violating[namespace] = self._violating.get(namespace, 0) + 1

    def rows_below(self, root: str, wanted: TreeFilter) -> Iterator[TreeRow]:
        order = self._world.tree.descendants(root)
        plain_root = self._row(root)
        if not (wanted.root or wanted.everything) and not _belongs(plain_root, len(order)):
            return
        rows = {root: plain_root}
        children: dict[str, list[str]] = {name: [] for name in order}
        for name in order[1:]:
            parent = self._parent(name)
            rows[name] = replace(self._row(name), parent=parent, depth=rows[parent].depth + 1)
            children[parent].append(name)
        pruned = _Pruned(rows, children, wanted)
        for name in reversed(order):
            pruned.prune(name)
        if root in pruned.kept:
            yield from pruned.walk(root)

    def _parent(self, name: str) -> str:
        ns = self._world.tree.get(name)
        parent = self._world.tree.parent_of(ns) if ns is not None else None
        assert parent is not None, f"{name} is below another namespace"
        return parent

    def _row(self, name: str) -> TreeRow:
        world = self._world
        record, effective = world.namespaces[name], world.effective(name)
        pods = world.pods_by_namespace.get(name, ())
        seen = bool(pods) or self._knows_pods
        wish = effective.own_request
        return TreeRow(
            name=name,
            class_name=effective.class_name,
            origin=self._origin(name),
            from_namespace=effective.origin if effective.origin != name else "",
            ignored=wish if wish not in (None, effective.class_name) else None,
            health=world.health(effective.class_name) if effective.class_name else None,
            pods=len(pods) if seen else None,
            pending=sum(record.pending for record in pods) if seen else None,
            violations=self._violating.get(name, 0) if seen else None,
            implied=record.implied,
            stray="; ".join(map(str, record.stray)),
        )

    def _origin(self, name: str) -> Origin:
        effective = self._world.effective(name)
        if name in self._world.tree.excluded:
            return Origin.EXCLUDED
        if effective.class_name is None:
            return Origin.NONE
        return Origin.OWN if effective.origin == name else Origin.INHERITED


def _belongs(root: TreeRow, size: int) -> bool:
    shown = root.class_name is not None or bool(root.stray) or size > 1
    return root.origin is not Origin.EXCLUDED and shown


class _Pruned:
    """What is left of a tree; prune children before their parents."""

    def __init__(
        self, rows: dict[str, TreeRow], children: dict[str, list[str]], wanted: TreeFilter
    ) -> None:
        self.kept: set[str] = set()
        self._rows = rows
        self._children = children
        self._wanted = wanted
        self._size: dict[str, int] = {}
        self._notable: set[str] = set()

    def prune(self, name: str) -> None:
        row, wanted = self._rows[name], self._wanted
        below = self._children[name]
        self._size[name] = 1 + sum(self._size[child] for child in below)
        hidden: list[str] = []
        if wanted.depth is not None and row.depth + 1 >= wanted.depth:
            shown, hidden = [], below
        else:
            shown = [child for child in below if child in self.kept]
        if not shown and not self._is_wanted(row):
            return
        if wanted.fold is not None:
            plain = [child for child in shown if child not in self._notable]
            if len(plain) > wanted.fold:
                shown, hidden = [c for c in shown if c in self._notable], [*hidden, *plain]
        folded = sum(self._size[child] for child in hidden)
        self.kept.add(name)
        self._children[name] = sorted(shown)
        self._rows[name] = row = replace(row, folded=folded)
        if row.troubled or row.origin is Origin.OWN or shown or folded:
            self._notable.add(name)

    def _is_wanted(self, row: TreeRow) -> bool:
        wanted = self._wanted
        if wanted.class_name and row.class_name != wanted.class_name:
            return False
        return row.troubled or not wanted.troubled

    def walk(self, root: str) -> Iterator[TreeRow]:
        waiting = [root]
        while waiting:
            name = waiting.pop()
            yield self._rows[name]
            waiting.extend(reversed(self._children[name]))
