"""Which node to name for a pod: one that its rules allow, and that its preferences like.

The choice stands in for kube-scheduler's scores, so it goes by the same: the preferences of class
and pod, the spreading of a workload that kube-scheduler does of itself, and the least load, all at
kube-scheduler's own weights. It looks at a few nodes that stand for all (see `shortlist`); where
they cannot, no node is chosen, and kube-scheduler looks at all of them as ever.
"""

import math
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from schedclass.domain import names
from schedclass.domain.scheduling.cluster import Cluster
from schedclass.domain.scheduling.constraints import NodePreference
from schedclass.domain.scheduling.counters import Counted, DomainCounts
from schedclass.domain.scheduling.decisions import Decisions
from schedclass.domain.scheduling.holdings import Holdings
from schedclass.domain.scheduling.plan import Subject
from schedclass.domain.scheduling.pods import Pod
from schedclass.domain.scheduling.podsets import PodSet, Selector
from schedclass.domain.scheduling.room import Room
from schedclass.domain.scheduling.scoring import normalised_spread, rounded
from schedclass.domain.scheduling.shortlist import Shortlist, cells_of, coarse_keys, traits_by
from schedclass.domain.scheduling.topology import DomainsSpec, NodeCondition
from schedclass.domain.scheduling.verdicts import MAX_NODE_SCORE, WEIGHTS, Plugin

FEW: Final = 4
MANY: Final = 64
"""Nodes of each cell that are looked at, and if none of the few will do."""

MAX_KINDS: Final = 256
MAX_WISHES: Final = 32
MAX_TOLERATIONS: Final = 64
"""Beyond these a pod costs more than a hint can save, and would hold up all others."""

DEFAULT_SKEWS: Final = (3, 5)
"""`maxSkew` of kube-scheduler's default spreading over nodes and zones (KEP-1258)."""

_OF_ONE_POD: Final = frozenset(
    (
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
    )
)
"""Labels by which pods of one workload differ."""


@dataclass(slots=True)
class _Siblings:
    """The running pods of one workload."""

    holdings: Holdings
    counts: DomainCounts


class Chooser:
    """Chooses nodes for pods. Nodes that are chosen are to be reserved in `room` by the caller."""

    def __init__(self, cluster: Cluster, decisions: Decisions, room: Room) -> None:
        """All on the same cluster.

        Args:
            cluster: the cluster.
            decisions: over all that a pod and its class demand (`Scope.MERGED`).
            room: what its nodes have left.
        """
        self._cluster = cluster
        self._decisions = decisions
        self._room = room
        self._lists: OrderedDict[Hashable, Shortlist | None] = OrderedDict()
        self._siblings: OrderedDict[Hashable, _Siblings] = OrderedDict()

    def nodes_changed(self) -> None:
        """Nodes came, went or changed, or it is time to look at all of them again."""
        self._lists.clear()

    def is_entangled(self, pod: Pod) -> bool:
        """Whether other pods on their way matter to the choice of its node, by a rule or wish."""
        subject = self._decisions.subject(pod)
        return any(
            part.has_pod_terms or part.hard_spread or part.soft_spread for part in subject.parts
        )

    def choose(self, pod: Pod) -> str | None:
        """The best of the nodes looked at; None if none of them will do.

        Reserved pods must be counted as running where they matter (`Cluster.supposing`).
        """
        if pod.demand is None:
            return None
        shortlist = self._shortlist(pod)
        if shortlist is None:
            return None
        for per_cell in (FEW, MANY):
            near = shortlist.nearest(pod.demand, per_cell)
            passing = self._decisions.filter(pod, near)
            if passing:
                return self._best(pod, passing)
            if len(near) == len(shortlist):
                break
        return None

    def _shortlist(self, pod: Pod) -> Shortlist | None:
        subject = self._decisions.subject(pod)
        if subject.problem is not None or _is_drawn_to_hosts(subject) or _is_long(subject):
            return None
        key = (
            subject.tolerance,
            subject.own.node,
            subject.added.node,
            _topologies(subject),
            _wishes(subject),
        )
        if key in self._lists:
            self._lists.move_to_end(key)
            return self._lists[key]
        made = self._lists[key] = self._new(subject)
        if len(self._lists) > MAX_KINDS:
            self._lists.popitem(last=False)
        return made

    def _new(self, subject: Subject) -> Shortlist | None:
        conditions: list[NodeCondition] = [
            subject.tolerance,
            *(part.node for part in subject.parts if part.node is not None),
        ]
        topology = self._cluster.topology
        satisfying = topology.satisfying(tuple(conditions))
        suitable = [
            node
            for name, node in topology.nodes.items()
            if name in satisfying and not node.unschedulable and name in self._room.nodes
        ]
        traits = traits_by(
            coarse_keys((*_topologies(subject), names.ZONE_LABEL), suitable),
            subject.tolerance.unwanted_taints,
            *(wish.allows for wish in _wishes(subject)),
        )
        cells = cells_of(suitable, traits)
        return Shortlist(self._room, cells) if cells is not None else None

    def _best(self, pod: Pod, passing: Sequence[str]) -> str:
        if len(passing) == 1:
            return passing[0]
        totals = self._decisions.score(pod, passing).totals()
        spread = self._spread(pod, passing)
        weight = WEIGHTS[Plugin.TOPOLOGY_SPREAD]
        loads = [self._room.load(name) for name in passing]
        ranks = [
            total + weight * even + MAX_NODE_SCORE * (1 - load)
            for total, even, load in zip(totals, spread, loads, strict=True)
        ]
        return passing[ranks.index(max(ranks))]

    def _spread(self, pod: Pod, passing: Sequence[str]) -> list[int]:
        """kube-scheduler's default spreading, for pods that ask for none of their own."""
        if pod.own.hard_spread or pod.own.soft_spread:
            return [0] * len(passing)
        siblings = self._siblings_of(pod)
        if siblings is None or not siblings.counts.by_node:
            return [0] * len(passing)
        nodes = self._cluster.topology.nodes
        zones = [nodes[name].labels.get(names.ZONE_LABEL, "") for name in passing]
        weights = math.log(len(passing) + 2), math.log(len(set(zones)) + 2)
        counts = siblings.counts
        return normalised_spread(
            [
                rounded(
                    counts.by_node.get(name, 0) * weights[0]
                    + counts.by_value.get(zone, 0) * weights[1]
                    + sum(DEFAULT_SKEWS)
                    - len(DEFAULT_SKEWS)
                )
                for name, zone in zip(passing, zones, strict=True)
            ]
        )

    def _siblings_of(self, pod: Pod) -> _Siblings | None:
        labels = {key: value for key, value in pod.labels.items() if key not in _OF_ONE_POD}
        if not labels:
            return None
        key = (pod.namespace, frozenset(labels.items()))
        found = self._siblings.get(key)
        if found is None:
            holdings = Holdings(self._cluster)
            selector = Selector(equals=tuple(sorted(labels.items())))
            alike = Counted((PodSet(frozenset((pod.namespace,)), None, selector),), live_only=True)
            counts = holdings.counts(alike, DomainsSpec(names.ZONE_LABEL))
            found = self._siblings[key] = _Siblings(holdings, counts)
            if len(self._siblings) > MAX_KINDS:
                self._siblings.popitem(last=False)[1].holdings.release()
        else:
            self._siblings.move_to_end(key)
        return found


def _topologies(subject: Subject) -> tuple[str, ...]:
    """The topology keys that matter to a pod, sorted."""
    keys: set[str] = set()
    for part in subject.parts:
        terms = (*part.affinity, *part.anti_affinity, *(wish for _, wish in part.preferred))
        keys.update(term.topology_key for term in terms)
        keys.update(spread.topology_key for spread in (*part.hard_spread, *part.soft_spread))
    return tuple(sorted(keys))


def _wishes(subject: Subject) -> tuple[NodePreference, ...]:
    return tuple(wish for part in subject.parts for _, wish in part.node_preferences)


def _is_long(subject: Subject) -> bool:
    wishes = sum(len(part.node_preferences) + len(part.preferred) for part in subject.parts)
    return wishes > MAX_WISHES or len(subject.tolerance.tolerations) > MAX_TOLERATIONS


def _is_drawn_to_hosts(subject: Subject) -> bool:
    """Whether it wants to be on the very node of another pod: a few nodes cannot stand for all."""
    return any(
        template.topology_key == names.HOSTNAME_LABEL
        for part in subject.parts
        for template in (*part.affinity, *(wish for weight, wish in part.preferred if weight > 0))
    )
