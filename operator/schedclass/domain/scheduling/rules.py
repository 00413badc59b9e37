"""The rules that a node must pass, each over all candidate nodes at once.

A rule reads sets and counts that are kept up to date (topology.py, counters.py) and never looks
at running pods. Sources: the filters of kube-scheduler's plugins TaintToleration, NodeAffinity,
PodTopologySpread and InterPodAffinity.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from schedclass.domain.scheduling import verdicts
from schedclass.domain.scheduling.carried import CarriedTerm
from schedclass.domain.scheduling.cluster import Cluster
from schedclass.domain.scheduling.counters import DomainCounts
from schedclass.domain.scheduling.podsets import PodSet
from schedclass.domain.scheduling.topology import Domains, NodeSet
from schedclass.domain.scheduling.verdicts import Plugin, Rejection

Reasons = dict[str, Rejection]


class Rule(Protocol):
    """One rule of one pod."""

    @property
    def plugin(self) -> Plugin:
        """The plugin whose rule it is."""

    def judge(self, names: set[str], reasons: Reasons | None) -> set[str]:
        """Say which nodes pass.

        Args:
            names: known nodes; not changed.
            reasons: receives why, for each node that does not pass; None if nobody asks.

        Returns:
            The nodes of `names` that pass; may be `names` itself.
        """


def _note(reasons: Reasons | None, rejected: set[str], why: Rejection) -> None:
    if reasons is not None and rejected:
        reasons.update(dict.fromkeys(rejected, why))


@dataclass(frozen=True, slots=True)
class RejectAll:
    """Nothing passes."""

    rejection: Rejection

    @property
    def plugin(self) -> Plugin:
        """The plugin of the rejection."""
        return self.rejection.plugin

    def judge(self, names: set[str], reasons: Reasons | None) -> set[str]:
        """See `Rule.judge`."""
        _note(reasons, names, self.rejection)
        return set()


@dataclass(frozen=True, slots=True)
class NodeRule:
    """Nodes of a set pass."""

    allowed: NodeSet
    rejection: Rejection

    @property
    def plugin(self) -> Plugin:
        """The plugin of the rejection."""
        return self.rejection.plugin

    def judge(self, names: set[str], reasons: Reasons | None) -> set[str]:
        """See `Rule.judge`."""
        kept = names & self.allowed.names
        if reasons is not None:
            _note(reasons, names - kept, self.rejection)
        return kept


@dataclass(frozen=True, slots=True)
class Identity:
    """What selectors see of the pod that is to be placed."""

    namespace: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AffinityRule:
    """Required pod affinity: pods that match all terms run in each of the node's domains.

    The first pod of its kind may go anywhere: if no pod counts in any topology and the pod matches
    all its own terms, a node needs no more than all the topology labels.
    """

    cluster: Cluster
    pod: Identity
    sets: tuple[PodSet, ...]
    counts: tuple[DomainCounts, ...]
    class_name: str
    plugin: Plugin = Plugin.POD_AFFINITY

    def judge(self, names: set[str], reasons: Reasons | None) -> set[str]:
        """See `Rule.judge`."""
        kept = names
        if any(counts.by_value for counts in self.counts):
            for counts in self.counts:
                kept = kept & counts.occupied
        elif self._matches_itself():
            for counts in self.counts:
                kept = kept.intersection(counts.domains.of_node)
        else:
            kept = set()
        if reasons is not None:
            _note(reasons, names - kept, verdicts.affinity_mismatch(self.class_name))
        return kept

    def _matches_itself(self) -> bool:
        pod, namespace_labels = self.pod, self.cluster.namespace_labels(self.pod.namespace)
        return all(pods.has(pod.namespace, namespace_labels, pod.labels) for pods in self.sets)


@dataclass(frozen=True, slots=True)
class AntiAffinityRule:
    """One term of required anti-affinity: no matching pod runs in the node's domain."""

    counts: DomainCounts
    class_name: str
    plugin: Plugin = Plugin.POD_AFFINITY

    def judge(self, names: set[str], reasons: Reasons | None) -> set[str]:
        """See `Rule.judge`."""
        kept = names - self.counts.occupied
        if reasons is not None:
            _note(reasons, names - kept, verdicts.anti_affinity_violated(self.class_name))
        return kept


@dataclass(slots=True)
class ExistingPodsRule:
    """Required anti-affinity the other way round: of running pods against this one."""

    cluster: Cluster
    pod: Identity
    classes_only: bool
    plugin: Plugin = Plugin.POD_AFFINITY
    _terms: Sequence[CarriedTerm] = ()
    _generation: int = field(default=-1)

    def judge(self, names: set[str], reasons: Reasons | None) -> set[str]:
        """See `Rule.judge`."""
        kept = names
        for term in self._repelling():
            passing = kept - term.counts.occupied
            if reasons is not None:
                _note(
                    reasons,
                    kept - passing,
                    verdicts.existing_anti_affinity(term.carried.class_name),
                )
            kept = passing
        return kept

    def _repelling(self) -> Sequence[CarriedTerm]:
        """The terms that act on the pod, looked up again only after terms came or went."""
        carried = self.cluster.carried
        if self._generation != carried.generation:
            pod, namespace_labels = self.pod, self.cluster.namespace_labels(self.pod.namespace)
            self._terms = [
                term
                for term in carried.matching(pod.namespace, namespace_labels, pod.labels)
                if term.carried.repels and (term.carried.class_name or not self.classes_only)
            ]
            self._generation = carried.generation
        return self._terms


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """One hard spread constraint.

    Attributes:
        cluster: the cluster.
        everywhere: the domains of the topology with all nodes, counted or not.
        counts: matching pods on counted nodes; None if the selector cannot count any pod.
        max_skew: as in the constraint.
        min_domains: as in the constraint.
        self_match: 1 if the pod matches the selector itself, else 0.
        class_name: the class that the constraint comes from, empty for the pod's own.
    """

    cluster: Cluster
    everywhere: Domains
    counts: DomainCounts | None
    max_skew: int
    min_domains: int
    self_match: int
    class_name: str
    plugin: Plugin = Plugin.TOPOLOGY_SPREAD

    def judge(self, names: set[str], reasons: Reasons | None) -> set[str]:
        """See `Rule.judge`."""
        labelled = names
        if len(self.everywhere.of_node) < len(self.cluster.topology.nodes):
            labelled = names.intersection(self.everywhere.of_node)
        kept = labelled - self._crowded(labelled)
        if reasons is not None:
            _note(reasons, names - labelled, verdicts.spread_label_missing(self.class_name))
            _note(reasons, labelled - kept, verdicts.spread_violated(self.class_name))
        return kept

    def _crowded(self, names: set[str]) -> set[str]:
        """Nodes whose domain would have too many; includes others if that is cheaper."""
        if self.counts is None:  # no pod is counted, so no domain is fuller than another
            return set()
        by_value = self.counts.by_value
        limit = self.max_skew + self._least() - self.self_match
        if len(names) <= len(by_value):
            domain = self.everywhere.of_node
            return {name for name in names if by_value.get(domain[name], 0) > limit}
        members = self.everywhere.members
        crowded = [members[value] for value, count in by_value.items() if count > limit]
        return set().union(*crowded)

    def _least(self) -> int:
        """The global minimum over counted domains; 0 where there are fewer than minDomains."""
        assert self.counts is not None
        by_value, domains = self.counts.by_value, len(self.counts.domains.members)
        if domains < self.min_domains or len(by_value) < domains:
            return 0
        return min(by_value.values())
