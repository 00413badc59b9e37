"""How many pods each class has and how many of them break it, kept up event by event.

Whoever watches feeds it; judging is asked for in portions, because the anti-affinity and spread of
a class may concern every pod again after each change. Once nothing is due, the counts are those
that counting everything anew would give.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from schedclass.domain.compliance import COUNTED_KINDS, Breach, Seen, ViolationKind, pod_breaches
from schedclass.domain.grouped import discard
from schedclass.domain.nodes import Node
from schedclass.domain.scheduling import Cluster, Decisions, Scope, compile_class
from schedclass.domain.scheduling.constraints import Constraints
from schedclass.domain.schedulingclass import SchedulingClass


@dataclass(frozen=True, slots=True)
class PodCounts:
    """The pods of a class.

    Attributes:
        pods: those that have not ended.
        violating: how many of them break the class in some way.
        by_kind: how many break it in each way; a pod may count in several.
    """

    pods: int = 0
    violating: int = 0
    by_kind: Mapping[ViolationKind, int] = field(
        default_factory=lambda: dict.fromkeys(COUNTED_KINDS, 0)
    )


@dataclass(frozen=True, slots=True)
class NewBreaches:
    """A pod that breaks its class as it did not before."""

    seen: Seen
    class_name: str
    breaches: tuple[Breach, ...]


@dataclass(slots=True)
class _Tally:
    members: set[str] = field(default_factory=set)
    by_kind: dict[ViolationKind, int] = field(
        default_factory=lambda: dict.fromkeys(COUNTED_KINDS, 0)
    )
    violating: int = 0


_NO_KINDS: Final[frozenset[ViolationKind]] = frozenset()
_OF_OTHERS: Final = frozenset({ViolationKind.AFFINITY, ViolationKind.SPREAD})
"""Kinds of violations that other pods can cause or end."""


class ComplianceIndex:
    """Pods by class, with what each of them violates. One thread, no I/O."""

    def __init__(
        self, *, default_label_keys: Iterable[str], exempt_daemon_sets: bool = False
    ) -> None:
        """Begin empty.

        Args:
            default_label_keys: see `Cluster`.
            exempt_daemon_sets: whether pods of DaemonSets are admitted unpinned.
        """
        self._cluster = Cluster(default_label_keys=default_label_keys, own_terms=False)
        self._decisions = Decisions(self._cluster, Scope.CLASS)
        self._exempt_daemon_sets = exempt_daemon_sets
        self._classes: dict[str, SchedulingClass] = {}
        self._class_of_namespace: dict[str, str] = {}
        self._pods: dict[str, Seen] = {}
        self._by_namespace: dict[str, set[str]] = {}
        self._by_node: dict[str, set[str]] = {}
        self._class_of: dict[str, str] = {}
        self._kinds: dict[str, frozenset[ViolationKind]] = {}
        self._tallies: dict[str, _Tally] = {}
        self._due: set[str] = set()
        self._round: list[str] = []
        self._unjudged: set[str] = set()
        self._in_round: set[str] = set()
        self._touched: set[str] = set()
        self._all_touched = False
        self._changed: set[str] = set()

    def __len__(self) -> int:
        """How many pods are known."""
        return len(self._pods)

    # What the watches tell

    def put_node(self, node: Node) -> None:
        """Insert or replace a node."""
        if self._cluster.put_node(node):
            self._all_touched = True
            self._due |= self._by_node.get(node.name, set())

    def remove_node(self, name: str) -> None:
        """Forget a node; of where its pods run nothing can be said any more."""
        if self._cluster.remove_node(name):
            self._all_touched = True
            self._due |= self._by_node.get(name, set())

    def put_namespace(self, name: str, labels: Mapping[str, str], class_name: str | None) -> None:
        """Insert or replace a namespace with its labels and its effective class (None for none)."""
        if self._cluster.put_namespace(name, labels, class_name):
            self._touched.add(name)
        self._set_class_of_namespace(name, class_name)

    def class_of_namespace(self, name: str) -> str | None:
        """The effective class of a namespace as it was last told, None for none."""
        return self._class_of_namespace.get(name)

    def remove_namespace(self, name: str) -> None:
        """Forget a namespace."""
        if self._cluster.remove_namespace(name):
            self._touched.add(name)
        self._set_class_of_namespace(name, None)

    def _set_class_of_namespace(self, name: str, class_name: str | None) -> None:
        if self._class_of_namespace.get(name) == class_name:
            return
        if class_name is None:
            del self._class_of_namespace[name]
        else:
            self._class_of_namespace[name] = class_name
        for uid in self._by_namespace.get(name, ()):
            self._assign(uid)

    def put_class(self, cls: SchedulingClass) -> None:
        """Insert or replace a class; one that differs only in its status changes nothing."""
        old = self._classes.get(cls.name)
        self._classes[cls.name] = cls
        if old is not None and old.rules == cls.rules:
            return
        self._cluster.put_class(compile_class(cls))
        self._unjudged.add(cls.name)
        self._all_touched = True
        self._due |= self._members(cls.name)

    def remove_class(self, name: str) -> None:
        """Forget a class; pods that are still of it violate nothing then."""
        if self._classes.pop(name, None) is not None:
            self._cluster.remove_class(name)
            self._unjudged.discard(name)
            self._in_round.discard(name)
            self._all_touched = True
            self._due |= self._members(name)

    def put_pod(self, seen: Seen) -> None:
        """Insert or replace a pod; one that has ended is forgotten."""
        pod = seen.pod
        if pod.finished:
            self.remove_pod(pod.uid)
            return
        old = self._pods.get(pod.uid)
        if old == seen:
            return
        if old is not None:
            self._touched.add(old.pod.namespace)
            self._unlist(old)
        self._pods[pod.uid] = seen
        self._by_namespace.setdefault(pod.namespace, set()).add(pod.uid)
        if pod.node_name:
            self._by_node.setdefault(pod.node_name, set()).add(pod.uid)
        if self._cluster.put_pod(pod):
            self._touched.add(pod.namespace)
        self._assign(pod.uid)

    def remove_pod(self, uid: str) -> None:
        """Forget a pod that is gone."""
        seen = self._pods.pop(uid, None)
        if seen is None:
            return
        if self._cluster.remove_pod(uid):
            self._touched.add(seen.pod.namespace)
        self._unlist(seen)
        self._due.discard(uid)
        self._leave(uid)

    def _unlist(self, seen: Seen) -> None:
        discard(self._by_namespace, seen.pod.namespace, seen.pod.uid)
        if seen.pod.node_name:
            discard(self._by_node, seen.pod.node_name, seen.pod.uid)

    # What is asked

    def counts(self, class_name: str) -> PodCounts:
        """The pods of a class, as far as they have been judged."""
        tally = self._tallies.get(class_name)
        if tally is None:
            return PodCounts()
        return PodCounts(len(tally.members), tally.violating, dict(tally.by_kind))

    def is_judged(self, class_name: str) -> bool:
        """Whether all pods of a class were judged by the rules that it has now."""
        waiting = class_name in self._unjudged or class_name in self._in_round
        return class_name in self._classes and not waiting

    def take_changed(self) -> frozenset[str]:
        """The classes whose counts, or whether they are judged, have changed since last asked."""
        changed, self._changed = frozenset(self._changed), set()
        return changed

    def begin(self) -> int:
        """Begin a round with all that is due, in place of what was left of the last one.

        Returns:
            How many pods there are to judge.
        """
        self._due.update(uid for uid in self._round if uid in self._pods)
        self._due |= self._related()
        self._touched, self._all_touched = set(), False
        self._in_round |= self._unjudged
        self._unjudged = set()
        # Pods of one namespace together: they share what decisions have compiled.
        self._round = sorted(self._due, key=self._order, reverse=True)
        self._due = set()
        return len(self._round)

    def judge(self, most: int) -> tuple[NewBreaches, ...]:
        """Judge some of the round.

        Args:
            most: how many pods at most.

        Returns:
            Those that break their class in a way in which they did not before.
        """
        found = []
        while self._round and most > 0:
            uid = self._round.pop()
            if uid in self._class_of and (new := self._judge(uid)) is not None:
                found.append(new)
            most -= 1
        return tuple(found)

    @property
    def left(self) -> int:
        """How many pods of the round are still to be judged."""
        return len(self._round)

    def finish(self) -> None:
        """End the round, and give up what was compiled for it, which would go on being counted."""
        self._decisions.close()
        if not self._round:
            self._changed |= self._in_round
            self._in_round = set()

    # Upkeep

    def _order(self, uid: str) -> tuple[str, str]:
        return self._pods[uid].pod.namespace, uid

    def _members(self, class_name: str) -> set[str]:
        tally = self._tallies.get(class_name)
        return set(tally.members) if tally is not None else set()

    def _related(self) -> set[str]:
        """The pods whose verdict may depend on what has changed with other pods."""
        if not (self._touched or self._all_touched):
            return set()
        active = {
            name: compiled.constraints
            for name in self._tallies
            if (compiled := self._cluster.get_class(name)) is not None
            and compiled.constraints is not None
        }
        if self._all_touched or not all(map(_is_local, active.values())):
            scope = set(self._class_of)
        else:
            scope = {uid for name in self._touched for uid in self._by_namespace.get(name, ())}
        if any(constraints.anti_affinity for constraints in active.values()):
            return scope & self._class_of.keys()  # it acts on pods of every class
        # Those that were in another's way may be so no more.
        related = {uid for uid, kinds in self._kinds.items() if kinds & _OF_OTHERS}
        for name, constraints in active.items():
            if constraints.affinity or constraints.hard_spread:
                related |= self._tallies[name].members
        return related & scope

    def _assign(self, uid: str) -> None:
        """Count a pod for the class that applies to it now, and have it judged."""
        class_name = self._cluster.class_name_of(self._pods[uid].pod)
        if self._class_of.get(uid) != class_name:
            self._leave(uid)
            if class_name is not None:
                self._class_of[uid] = class_name
                self._tallies.setdefault(class_name, _Tally()).members.add(uid)
                self._changed.add(class_name)
        if class_name is not None:
            self._due.add(uid)

    def _leave(self, uid: str) -> None:
        class_name = self._class_of.get(uid)
        if class_name is None:
            return
        self._set_kinds(uid, class_name, _NO_KINDS)
        del self._class_of[uid]
        tally = self._tallies[class_name]
        tally.members.discard(uid)
        if not tally.members:
            del self._tallies[class_name]
        self._changed.add(class_name)

    def _judge(self, uid: str) -> NewBreaches | None:
        seen, class_name = self._pods[uid], self._class_of[uid]
        found = pod_breaches(
            seen,
            self._classes.get(class_name),
            self._cluster.topology.nodes.get(seen.pod.node_name),
            self._decisions,
            of_namespace=self._class_of_namespace.get(seen.pod.namespace),
            exempt_daemon_sets=self._exempt_daemon_sets,
        )
        kinds = frozenset(breach.kind for breach in found)
        before = self._kinds.get(uid, _NO_KINDS)
        self._set_kinds(uid, class_name, kinds)
        new = tuple(breach for breach in found if breach.kind not in before)
        return NewBreaches(seen, class_name, new) if new else None

    def _set_kinds(self, uid: str, class_name: str, kinds: frozenset[ViolationKind]) -> None:
        before = self._kinds.pop(uid, _NO_KINDS)
        if kinds:
            self._kinds[uid] = kinds
        if before == kinds:
            return
        tally = self._tallies[class_name]
        for kind in before:
            tally.by_kind[kind] -= 1
        for kind in kinds:
            tally.by_kind[kind] += 1
        tally.violating += bool(kinds) - bool(before)
        self._changed.add(class_name)


def _is_local(constraints: Constraints) -> bool:
    """Whether pods of other namespaces cannot matter to what the class demands.

    Spread counts within the pod's own namespace. Required affinity is judged together with the
    pod's own, which may look anywhere.
    """
    return not constraints.affinity and not any(
        term.namespaces or term.namespace_selector is not None for term in constraints.anti_affinity
    )
