"""Nodes by what placement asks of them: which are allowed, and which topology domains they form.

Both kinds of answers are kept up to date node by node, so a decision reads them instead of looking
at nodes. They exist while somebody holds them (acquire, release).
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from schedclass.domain.grouped import discard
from schedclass.domain.nodes import Node, Taint


class NodeIndex:
    """Nodes by label and by taints, so that long conditions are not gone through for each node."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.by_taints: dict[tuple[Taint, ...], set[str]] = {}
        self._by_label: dict[str, dict[str, set[str]]] = {}

    def values(self, key: str) -> Mapping[str, AbstractSet[str]]:
        """The values of a label, each with the nodes that have it."""
        return self._by_label.get(key, {})

    def put(self, node: Node) -> None:
        """Insert a node that is not here."""
        self.names.add(node.name)
        self.by_taints.setdefault(node.taints, set()).add(node.name)
        for key, value in node.labels.items():
            self._by_label.setdefault(key, {}).setdefault(value, set()).add(node.name)

    def remove(self, node: Node) -> None:
        """Take away a node that is here just so."""
        self.names.discard(node.name)
        discard(self.by_taints, node.taints, node.name)
        for key, value in node.labels.items():
            discard(self._by_label[key], value, node.name)
            if not self._by_label[key]:
                del self._by_label[key]


class NodeCondition(Protocol):
    """Something that a node satisfies by itself: hashable, equal if it means the same."""

    def allows(self, node: Node) -> bool:
        """Whether the node satisfies it."""

    def select(self, nodes: NodeIndex) -> AbstractSet[str]:
        """The nodes that `allows` says yes of, without a look at each."""

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
            discard(self.members, old, name)
        if new is not None:
            self.of_node[name] = new
            self.members.setdefault(new, set()).add(name)
        for listener in self.listeners:
            listener.moved(name, old, new)

    def fill(self, nodes: Iterable[Node]) -> None:
        """Begin with these nodes, which satisfy the conditions."""
        for node in nodes:
            value = self._value(node)
            if value is not None:
                self.of_node[node.name] = value
                self.members.setdefault(value, set()).add(node.name)

    def _domain(self, node: Node | None) -> str | None:
        value = self._value(node) if node is not None else None
        if node is None or value is None:
            return None
        return value if all(one.allows(node) for one in self.spec.conditions) else None

    def _value(self, node: Node) -> str | None:
        spec = self.spec
        return node.labels.get(spec.key) if spec.required_keys <= node.labels.keys() else None


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
        self._index = NodeIndex()
        self.names: set[str] = self._index.names
        self._sets: Shared[Conditions, NodeSet] = Shared()
        self._domains: Shared[DomainsSpec, Domains] = Shared()

    def put(self, node: Node) -> bool:
        """Insert or replace a node; tells whether anything that placement reads changed."""
        old = self.nodes.get(node.name)
        self.nodes[node.name] = node
        if old is not None and old.labels == node.labels and old.taints == node.taints:
            return _NOTHING_CHANGED
        if old is not None:
            self._index.remove(old)
        self._index.put(node)
        self._refresh(node.name, node)
        return True

    def remove(self, name: str) -> bool:
        """Forget a node; tells whether it was known."""
        old = self.nodes.pop(name, None)
        if old is None:
            return _NOTHING_CHANGED
        self._index.remove(old)
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
            found = self._sets.put(conditions, NodeSet(conditions, self.satisfying(conditions)))
        return found

    def satisfying(self, conditions: Conditions) -> set[str]:
        """The nodes that satisfy all conditions, as of now."""
        names = set(self._index.names)
        for condition in conditions:
            if not names:
                break
            names &= condition.select(self._index)
        return names

    def release_set(self, node_set: NodeSet) -> None:
        """Give back what `acquire_set` gave."""
        self._sets.release(node_set.conditions)

    def acquire_domains(self, spec: DomainsSpec) -> Domains:
        """The domains of a topology; give them back with `release_domains`."""
        found = self._domains.take(spec)
        if found is None:
            found = self._domains.put(spec, Domains(spec))
            found.fill(self.nodes[name] for name in self.satisfying(spec.conditions))
        return found

    def release_domains(self, domains: Domains) -> None:
        """Give back what `acquire_domains` gave."""
        self._domains.release(domains.spec)

    @property
    def views(self) -> int:
        """How many sets and domains are held."""
        return len(self._sets) + len(self._domains)
