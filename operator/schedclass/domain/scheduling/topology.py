"""Nodes by what placement asks of them: which are allowed, and which topology domains they form.

Both kinds of answers are kept up to date node by node, so a decision reads them instead of looking
at nodes. They exist while somebody holds them (acquire, release).
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from schedclass.domain.nodes import Node


class NodeCondition(Protocol):
    """Something that a node satisfies by itself: hashable, equal if it means the same."""

    def allows(self, node: Node) -> bool:
        """Whether the node satisfies it."""

    def __hash__(self) -> int: ...


Conditions = tuple[NodeCondition, ...]


@dataclass(slots=True, eq=False)
class NodeSet:
    """The nodes that satisfy some conditions together."""

    conditions: Conditions
    names: set[str] = field(default_factory=set)

    def refresh(self, name: str, node: Node | None) -> None:
        """Take note of a changed node; None for one that is gone."""
        if node is not None and all(condition.allows(node) for condition in self.conditions):
            self.names.add(name)
        else:
            self.names.discard(name)


class DomainsSpec(NamedTuple):
    """Which nodes are sorted into domains, and by what.

    Attributes:
        key: the label whose values are the domains (`topologyKey`).
        required_keys: labels that a node must have as well to be counted.
        conditions: what a node must satisfy to be counted.
    """

    key: str
    required_keys: frozenset[str] = frozenset()
    conditions: Conditions = ()


class DomainsListener(Protocol):
    """Follows nodes from domain to domain."""

    def moved(self, name: str, old: str | None, new: str | None) -> None:
        """A node left domain `old` (None: was in none) for `new` (None: is in none)."""


@dataclass(slots=True, eq=False)
class Domains:
    """The domains of a topology: label values and the counted nodes that have them."""

    spec: DomainsSpec
    of_node: dict[str, str] = field(default_factory=dict)
    members: dict[str, set[str]] = field(default_factory=dict)
    listeners: dict[DomainsListener, None] = field(default_factory=dict)

    def refresh(self, name: str, node: Node | None) -> None:
        """Take note of a changed node; None for one that is gone."""
        old, new = self.of_node.get(name), self._domain(node)
        if old == new:
            return
        if old is not None:
            del self.of_node[name]
            self.members[old].discard(name)
            if not self.members[old]:
                del self.members[old]
        if new is not None:
            self.of_node[name] = new
            self.members.setdefault(new, set()).add(name)
        for listener in self.listeners:
            listener.moved(name, old, new)

    def _domain(self, node: Node | None) -> str | None:
        spec = self.spec
        if node is None or not spec.required_keys <= node.labels.keys():
            return None
        value = node.labels.get(spec.key)
        if value is None or not all(condition.allows(node) for condition in spec.conditions):
            return None
        return value


KeyT = TypeVar("KeyT", bound=Hashable)
ViewT = TypeVar("ViewT")


class Shared(Generic[KeyT, ViewT]):
    """Objects by key with a count of their holders; one without holders is dropped."""

    def __init__(self) -> None:
        self._held: dict[KeyT, tuple[ViewT, int]] = {}

    def __iter__(self) -> Iterator[ViewT]:
        """All objects."""
        return (view for view, _ in self._held.values())

    def __len__(self) -> int:
        """How many objects there are."""
        return len(self._held)

    def take(self, key: KeyT) -> ViewT | None:
        """The object under a key with one more holder; None if there is none."""
        held = self._held.get(key)
        if held is None:
            return None
        self._held[key] = (held[0], held[1] + 1)
        return held[0]

    def peek(self, key: KeyT) -> ViewT:
        """The object under a key, which must be there."""
        return self._held[key][0]

    def put(self, key: KeyT, view: ViewT) -> ViewT:
        """Add an object with its first holder."""
        self._held[key] = (view, 1)
        return view

    def release(self, key: KeyT) -> bool:
        """Count one holder less; tells whether it was the last, and the object is dropped."""
        view, holders = self._held[key]
        if holders > 1:
            self._held[key] = (view, holders - 1)
            return False
        del self._held[key]
        return True


_NOTHING_CHANGED: Final = False


class Topology:
    """All nodes, and the sets and domains that are asked for.

    Attributes:
        nodes: the nodes by name.
        names: their names; like all sets here, for reading only.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.names: set[str] = set()
        self._sets: Shared[Conditions, NodeSet] = Shared()
        self._domains: Shared[DomainsSpec, Domains] = Shared()

    def put(self, node: Node) -> bool:
        """Insert or replace a node; tells whether anything that placement reads changed."""
        old = self.nodes.get(node.name)
        self.nodes[node.name] = node
        self.names.add(node.name)
        if old is not None and old.labels == node.labels and old.taints == node.taints:
            return _NOTHING_CHANGED
        self._refresh(node.name, node)
        return True

    def remove(self, name: str) -> bool:
        """Forget a node; tells whether it was known."""
        if self.nodes.pop(name, None) is None:
            return _NOTHING_CHANGED
        self.names.discard(name)
        self._refresh(name, None)
        return True

    def _refresh(self, name: str, node: Node | None) -> None:
        for node_set in self._sets:
            node_set.refresh(name, node)
        for domains in self._domains:
            domains.refresh(name, node)

    def acquire_set(self, conditions: Conditions) -> NodeSet:
        """The nodes that satisfy all conditions; give it back with `release_set`."""
        found = self._sets.take(conditions)
        if found is None:
            found = self._sets.put(conditions, NodeSet(conditions))
            for name, node in self.nodes.items():
                found.refresh(name, node)
        return found

    def release_set(self, node_set: NodeSet) -> None:
        """Give back what `acquire_set` gave."""
        self._sets.release(node_set.conditions)

    def acquire_domains(self, spec: DomainsSpec) -> Domains:
        """The domains of a topology; give them back with `release_domains`."""
        found = self._domains.take(spec)
        if found is None:
            found = self._domains.put(spec, Domains(spec))
            for name, node in self.nodes.items():
                found.refresh(name, node)
        return found

    def release_domains(self, domains: Domains) -> None:
        """Give back what `acquire_domains` gave."""
        self._domains.release(domains.spec)

    @property
    def views(self) -> int:
        """How many sets and domains are held."""
        return len(self._sets) + len(self._domains)
