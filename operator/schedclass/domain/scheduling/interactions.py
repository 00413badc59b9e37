"""Whether placing one pod can change which nodes are open to another, by their classes' hard terms.

Who places pods one after the other without seeing each result at once asks this, to know for which
results the next decision has to wait.
"""

from collections.abc import Iterator

from schedclass.domain.scheduling.cluster import Cluster
from schedclass.domain.scheduling.pods import Pod
from schedclass.domain.scheduling.podsets import PodSet


def interact(cluster: Cluster, one: Pod, other: Pod) -> bool:
    """Whether a hard pod-level term of either pod's class speaks of the other pod.

    Required affinity counts, too: of two first pods of a kind, placed at once, each would found a
    domain of its own.
    """
    return _speaks_of(cluster, one, other) or _speaks_of(cluster, other, one)


def has_hard_pod_terms(cluster: Cluster, pod: Pod) -> bool:
    """Whether the class of a pod has required (anti-)affinity or hard spread."""
    return any(True for _ in _hard_sets(cluster, pod))


def _speaks_of(cluster: Cluster, owner: Pod, other: Pod) -> bool:
    labels = cluster.namespace_labels(other.namespace)
    return any(
        pods.has(other.namespace, labels, other.labels) for pods in _hard_sets(cluster, owner)
    )


def _hard_sets(cluster: Cluster, pod: Pod) -> Iterator[PodSet]:
    """The sets of pods that hard terms of the pod's class speak of."""
    name = cluster.class_name_of(pod)
    cls = cluster.get_class(name) if name is not None else None
    constraints = cluster.constraints_from(cls, pod) if cls is not None else None
    if constraints is None:
        return
    filling = cluster.filling(pod.labels)
    for template in (*constraints.anti_affinity, *constraints.affinity):
        yield template.bind(pod.namespace, pod.labels, filling).pods
    for spread in constraints.hard_spread:
        yield PodSet(frozenset((pod.namespace,)), None, spread.bind(pod.labels, filling))
