"""The preferences of a pod, scored and normalised as kube-scheduler's plugins do.

Sources: Score and NormalizeScore of TaintToleration, NodeAffinity, PodTopologySpread and
InterPodAffinity. Scores are relative to the nodes that are scored together.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from schedclass.domain import names
from schedclass.domain.nodes import Node
from schedclass.domain.scheduling.cluster import Cluster
from schedclass.domain.scheduling.constraints import Tolerance
from schedclass.domain.scheduling.counters import DomainCounts
from schedclass.domain.scheduling.plan import BoundSpread, Planner
from schedclass.domain.scheduling.rules import Identity
from schedclass.domain.scheduling.topology import NodeSet
from schedclass.domain.scheduling.verdicts import MAX_NODE_SCORE, Plugin

IGNORED: Final = -1
"""Raw score of a node that has not all topology keys of the soft spread constraints."""


@dataclass(frozen=True, slots=True)
class Preferences:
    """What scores the nodes for one pod.

    Attributes:
        cluster: the cluster.
        pod: what selectors see of the pod.
        tolerance: its tolerations; None if taints are not scored.
        node_sets: weights of sets of nodes, from preferred node affinity.
        terms: weights of preferred pod affinity terms with the counts of the pods they match.
        spread: soft spread constraints.
        classes_only: of the terms that running pods carry, heed only those of classes.
    """

    cluster: Cluster
    pod: Identity
    tolerance: Tolerance | None
    node_sets: tuple[tuple[int, NodeSet], ...]
    terms: tuple[tuple[int, DomainCounts], ...]
    spread: tuple[BoundSpread, ...]
    classes_only: bool

    def score(self, nodes: Sequence[Node]) -> dict[Plugin, list[int]]:
        """Score nodes (0 to 100) per plugin that has a say."""
        scores = {}
        if self.tolerance is not None:
            unwanted = [self.tolerance.unwanted_taints(node) for node in nodes]
            scores[Plugin.TAINT_TOLERATION] = _fewest_best(unwanted)
        if self.node_sets:
            scores[Plugin.NODE_AFFINITY] = _most_best(_preference_scores(self.node_sets, nodes))
        if self.spread:
            scores[Plugin.TOPOLOGY_SPREAD] = normalised_spread(_spread_scores(self.spread, nodes))
        by_key = self._attraction()
        if by_key:
            scores[Plugin.POD_AFFINITY] = _stretched(_attraction_scores(by_key, nodes))
        return scores

    def _attraction(self) -> dict[str, dict[str, int]]:
        """Sums of weights per topology key and value: of own terms and of carried ones."""
        by_key: dict[str, dict[str, int]] = {}
        for weight, counts in self.terms:
            _add_up(by_key, counts, weight)
        pod, namespace_labels = self.pod, self.cluster.namespace_labels(self.pod.namespace)
        for term in self.cluster.carried.matching(pod.namespace, namespace_labels, pod.labels):
            if not term.carried.repels and (term.carried.class_name or not self.classes_only):
                _add_up(by_key, term.counts, 1)
        return by_key


def preferences(cluster: Cluster, planner: Planner) -> Preferences:
    """Collect the preferences of the judged parts of a pod; the planner's holdings pay for them."""
    node_sets: list[tuple[int, NodeSet]] = []
    terms: list[tuple[int, DomainCounts]] = []
    for part, class_name in planner.judged():
        for weight, preference in part.node_preferences:
            node_sets.append((weight, planner.holdings.nodes((preference,))))
        for weight, template in part.preferred:
            term = planner.bind(template, class_name)
            if term.pods.selector is not None:
                terms.append((weight, planner.term_counts(term)))
    subject = planner.subject
    return Preferences(
        cluster,
        subject.pod,
        None if planner.classes_only else subject.tolerance,
        tuple(node_sets),
        tuple(terms),
        tuple(planner.bind_spread(hard=False)),
        planner.classes_only,
    )


def _add_up(by_key: dict[str, dict[str, int]], counts: DomainCounts, weight: int) -> None:
    sums = by_key.setdefault(counts.domains.spec.key, {})
    for value, count in counts.by_value.items():
        sums[value] = sums.get(value, 0) + weight * count


def _preference_scores(
    node_sets: Iterable[tuple[int, NodeSet]], nodes: Sequence[Node]
) -> list[int]:
    known, totals = [node.name for node in nodes], [0] * len(nodes)
    for weight, allowed in node_sets:
        preferred = allowed.names
        totals = [
            total + weight if name in preferred else total
            for name, total in zip(known, totals, strict=True)
        ]
    return totals


def _attraction_scores(by_key: Mapping[str, Mapping[str, int]], nodes: Sequence[Node]) -> list[int]:
    totals = [0] * len(nodes)
    for key, sums in by_key.items():
        values = [node.labels.get(key) for node in nodes]
        totals = [
            total if value is None else total + sums.get(value, 0)
            for value, total in zip(values, totals, strict=True)
        ]
    return totals


def _spread_scores(spread: Sequence[BoundSpread], nodes: Sequence[Node]) -> list[int]:
    """The raw scores: how full the domains of each node are, weighted by how many there are."""
    takes_part = [spread[0].keys <= node.labels.keys() for node in nodes]
    counted = [node for node, counts in zip(nodes, takes_part, strict=True) if counts]
    totals = [0.0] * len(counted)
    for bound in spread:
        key, skew = bound.template.topology_key, bound.template.max_skew - 1
        numbers: Mapping[str, int] = {}
        if key == names.HOSTNAME_LABEL:
            # Pods on the node itself count, whatever node the label names.
            size = len(counted)
            domains = [node.name for node in counted]
            if bound.counts is not None:
                numbers = bound.counts.by_node
        else:
            domains = [node.labels[key] for node in counted]
            size = len(set(domains))
            if bound.counts is not None:
                numbers = bound.counts.by_value
        weight = math.log(size + 2)
        totals = [
            total + (numbers.get(domain, 0) * weight + skew)
            for total, domain in zip(totals, domains, strict=True)
        ]
    whole = iter([rounded(total) for total in totals])
    return [next(whole) if counts else IGNORED for counts in takes_part]


def rounded(value: float) -> int:
    """Half away from zero, for values that are not negative (Go's math.Round)."""
    whole = math.floor(value)
    return whole + 1 if value - whole >= 0.5 else whole


def normalised_spread(scores: Sequence[int]) -> list[int]:
    """Emptiest best; 100 for all if every domain is empty, 0 for nodes that are ignored."""
    taking_part = [score for score in scores if score != IGNORED]
    if not taking_part:
        return [0] * len(scores)
    least, most = min(taking_part), max(taking_part)
    return [
        0
        if score == IGNORED
        else MAX_NODE_SCORE * (most + least - score) // most
        if most
        else MAX_NODE_SCORE
        for score in scores
    ]


def _most_best(scores: Sequence[int]) -> list[int]:
    most = max(scores, default=0)
    return [MAX_NODE_SCORE * score // most for score in scores] if most else list(scores)


def _fewest_best(scores: Sequence[int]) -> list[int]:
    return [MAX_NODE_SCORE - score for score in _most_best(scores)]


def _stretched(scores: Sequence[int]) -> list[int]:
    """From 0 for the least to 100 for the most; 0 for all if they are equal."""
    if not scores:
        return []
    least, most = min(scores), max(scores)
    if least == most:
        return [0] * len(scores)
    return [int(MAX_NODE_SCORE * (float(score - least) / float(most - least))) for score in scores]
