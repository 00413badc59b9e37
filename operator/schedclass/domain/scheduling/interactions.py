"""How pods that are being placed at the same time touch one another by the hard terms of classes.

Who places pods one after the other without seeing each result at once asks two things here: for
which results a decision should wait, and what a decision must not rest on.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from schedclass.domain.scheduling.cluster import Cluster
from schedclass.domain.scheduling.constraints import NO_CONSTRAINTS, Constraints
from schedclass.domain.scheduling.pods import Pod
from schedclass.domain.scheduling.podsets import PodSet

_NOBODY: Final[frozenset[str]] = frozenset()


def interact(cluster: Cluster, one: Pod, other: Pod) -> bool:
    """Whether a hard pod-level term of either pod's class speaks of the other pod.

    Required affinity counts, too: of two first pods of a kind, placed at once, each would found a
    domain of its own.
    """
    return _speaks_of(cluster, one, other) or _speaks_of(cluster, other, one)


def leans_on_others(cluster: Cluster, pod: Pod) -> bool:
    """Whether a rule of the pod's class may hold only once other pods have been placed."""
    constraints = _constraints(cluster, pod)
    return bool(constraints.affinity or constraints.hard_spread)


def worst_absences(
    cluster: Cluster, pod: Pod, node_name: str, uncertain: Iterable[Pod]
) -> Iterator[frozenset[str]]:
    """Which of the pods that may yet turn out not to run would harm a placement by that.

    Anti-affinity can only gain by an absence. A required affinity may lose the very pods it needs,
    so there those of the node's domain are to be thought away, and they alone: while no such pod
    runs anywhere, the first one may go where it likes. A hard spread constraint counts the pods in
    the node's domain against the emptiest one, so there those of all other domains are. A placement
    that holds with each of these sets absent, and with none absent, holds whatever becomes of them.

    Args:
        cluster: where the pod is to be placed.
        pod: the pod.
        node_name: its node.
        uncertain: pods that are counted as running on their nodes.

    Returns:
        Sets of uids, none of them empty, each once.
    """
    constraints = _constraints(cluster, pod)
    if not (constraints.affinity or constraints.hard_spread):
        return iter(())
    others = [other for other in uncertain if _speaks_of(cluster, pod, other)]
    absences = set()
    for term in constraints.affinity:
        absences.add(_split(cluster, term.topology_key, node_name, others)[0])
    for spread in constraints.hard_spread:
        absences.add(_split(cluster, spread.topology_key, node_name, others)[1])
    return iter(absences - {_NOBODY})


def by_domain(cluster: Cluster, pod: Pod, names: Iterable[str]) -> list[list[str]]:
    """Nodes in groups that are all the same to the hard pod-level terms of the pod's class.

    Args:
        cluster: where the nodes are.
        pod: the pod.
        names: the nodes; those that are not known have no labels.

    Returns:
        The groups, nodes in their order; nothing if the class has no such term.
    """
    constraints = _constraints(cluster, pod)
    terms = (*constraints.anti_affinity, *constraints.affinity)
    keys = sorted(
        {term.topology_key for term in terms}
        | {spread.topology_key for spread in constraints.hard_spread}
    )
    if not keys:
        return []
    nodes = cluster.topology.nodes
    groups: dict[tuple[str | None, ...], list[str]] = {}
    for name in names:
        labels = nodes[name].labels if name in nodes else {}
        groups.setdefault(tuple(labels.get(key) for key in keys), []).append(name)
    return list(groups.values())


def _split(
    cluster: Cluster, topology_key: str, node_name: str, pods: Sequence[Pod]
) -> tuple[frozenset[str], frozenset[str]]:
    """The pods in a node's domain, and those outside of it."""

    def domain(name: str) -> str | None:
        node = cluster.topology.nodes.get(name)
        return node.labels.get(topology_key) if node is not None else None

    here = domain(node_name)
    inside = frozenset(pod.uid for pod in pods if domain(pod.node_name) == here)
    return inside, frozenset(pod.uid for pod in pods) - inside


def _speaks_of(cluster: Cluster, owner: Pod, other: Pod) -> bool:
    labels = cluster.namespace_labels(other.namespace)
    return any(
        pods.has(other.namespace, labels, other.labels) for pods in _hard_sets(cluster, owner)
    )


def _constraints(cluster: Cluster, pod: Pod) -> Constraints:
    cls = cluster.class_of(pod)
    return (cls.constraints if cls is not None else None) or NO_CONSTRAINTS


def _hard_sets(cluster: Cluster, pod: Pod) -> Iterator[PodSet]:
    """The sets of pods that hard terms of the pod's class speak of."""
    constraints = _constraints(cluster, pod)
    filling = cluster.filling(pod.labels)
    for template in (*constraints.anti_affinity, *constraints.affinity):
        yield template.bind(pod.namespace, pod.labels, filling).pods
    for spread in constraints.hard_spread:
        yield PodSet(frozenset((pod.namespace,)), None, spread.bind(pod.labels, filling))
