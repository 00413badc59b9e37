"""The cluster as decisions see it, kept up to date event by event.

One object, one thread, no I/O: whoever watches the API server feeds it, whoever decides reads it.
Every method leaves it exactly as if it had been built anew from the present objects.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from schedclass.domain.grouped import discard
from schedclass.domain.nodes import Node
from schedclass.domain.scheduling.carried import Carried, CarriedTerm, CarriedTerms
from schedclass.domain.scheduling.constraints import CompiledClass, Constraints
from schedclass.domain.scheduling.counters import Counters
from schedclass.domain.scheduling.placed import PlacedPods
from schedclass.domain.scheduling.pods import Pod
from schedclass.domain.scheduling.podsets import NO_LABELS, PodSet, Selector, filling_for
from schedclass.domain.scheduling.topology import Topology

HARD_POD_AFFINITY_WEIGHT: Final = 1
"""Weight of a running pod's required affinity in scores (InterPodAffinityArgs, default)."""


@dataclass(frozen=True, slots=True)
class _Namespace:
    labels: Mapping[str, str]
    class_name: str | None


_UNKNOWN_NAMESPACE: Final = _Namespace(NO_LABELS, None)


class Cluster:
    """Nodes, running pods, namespaces and classes, with the counts that decisions need.

    Attributes:
        topology: the nodes.
        counters: running pods per topology domain.
        carried: affinity terms that running pods carry.
        version: moves with every change that can matter to a decision.
    """

    def __init__(self, *, default_label_keys: Iterable[str], own_terms: bool) -> None:
        """Begin empty.

        Args:
            default_label_keys: the label keys from which a missing labelSelector of a class is
                filled (`defaultLabelSelectorKeys`).
            own_terms: also index the affinity terms in the specs of running pods. Needed where
                the whole of a pod is judged; beside kube-scheduler, which judges those, it is not.
        """
        self.topology = Topology()
        self.counters = Counters(self.topology, self._candidates)
        self.carried = CarriedTerms(self.topology)
        self.version = 0
        self.default_label_keys = tuple(sorted(set(default_label_keys)))
        self._own_terms = own_terms
        self._placed = PlacedPods()
        self._namespaces: dict[str, _Namespace] = {}
        self._classes: dict[str, CompiledClass] = {}
        self._carriers: dict[str, tuple[tuple[CarriedTerm, int], ...]] = {}
        self._by_class: dict[str, set[str]] = {}
        self._assumed: dict[str, str] = {}

    # Nodes

    def put_node(self, node: Node) -> bool:
        """Insert or replace a node; tells whether labels or taints changed."""
        return self._changed(self.topology.put(node))

    def remove_node(self, name: str) -> bool:
        """Forget a node. Pods on it count again if it returns."""
        return self._changed(self.topology.remove(name))

    # Namespaces and classes

    def put_namespace(self, name: str, labels: Mapping[str, str], class_name: str | None) -> bool:
        """Insert or replace a namespace with its labels and its effective class (None for none)."""
        new = _Namespace(labels, class_name)
        return self._replace_namespace(name, new)

    def remove_namespace(self, name: str) -> bool:
        """Forget a namespace; pods that are still in it have no namespace labels then."""
        return self._replace_namespace(name, None)

    def _replace_namespace(self, name: str, new: _Namespace | None) -> bool:
        if self._namespaces.get(name) == new:
            return False
        pods = self._placed.in_namespace(name)
        for pod in pods:
            self._detach(pod.uid)
        if new is None:
            del self._namespaces[name]
        else:
            self._namespaces[name] = new
        for pod in pods:
            self._attach(pod)
        self.carried.generation += 1  # what acts on pods of this namespace may have changed
        return self._changed(True)

    def put_class(self, compiled: CompiledClass) -> bool:
        """Insert or replace a class."""
        old = self._classes.get(compiled.name)
        if old is not None and old.key == compiled.key:
            return False
        self._replace_class(compiled.name, compiled)
        return self._changed(True)

    def remove_class(self, name: str) -> bool:
        """Forget a class; running pods of it carry nothing of it any more."""
        if name not in self._classes:
            return False
        self._replace_class(name, None)
        return self._changed(True)

    def _replace_class(self, name: str, new: CompiledClass | None) -> None:
        old = self._classes.get(name)
        carries = any(
            cls is not None and cls.constraints is not None and cls.constraints.has_pod_terms
            for cls in (old, new)
        )
        pods = [self._pod(uid) for uid in self._by_class.get(name, ())] if carries else []
        for pod in pods:
            self._uncarry(pod)
        if new is None:
            del self._classes[name]
        else:
            self._classes[name] = new
        for pod in pods:
            self._carry(pod)

    # Pods

    def put_pod(self, pod: Pod) -> bool:
        """Insert or replace a pod as watched; one without a node, or finished, takes no place.

        A pod whose binding is assumed keeps its node until it is seen bound or is forgotten.
        """
        if pod.node_name:
            self._assumed.pop(pod.uid, None)
        elif pod.uid in self._assumed:
            pod = pod.on(self._assumed[pod.uid])
        if not pod.node_name or pod.finished:
            return self.remove_pod(pod.uid)
        old = self._placed.get(pod.uid)
        if old == pod:
            return False
        if old is not None:
            self._detach(pod.uid)
        self._attach(pod)
        return self._changed(True)

    def remove_pod(self, uid: str) -> bool:
        """Forget a pod that was deleted."""
        self._assumed.pop(uid, None)
        if self._placed.get(uid) is None:
            return False
        self._detach(uid)
        return self._changed(True)

    def assume(self, pod: Pod, node_name: str) -> None:
        """Count a pod as running on a node from now on, because its binding is under way.

        A finished pod takes no place, on whatever node.
        """
        if pod.finished:
            return
        placed = self._placed.get(pod.uid)
        if placed is not None and placed.node_name == node_name:
            return
        if placed is not None:
            self._detach(pod.uid)
        self._attach(pod.on(node_name))
        self._assumed[pod.uid] = node_name
        self._changed(True)

    def forget(self, uid: str) -> bool:
        """Take an assumed binding back that failed; one that was seen bound stays."""
        return self.remove_pod(uid) if uid in self._assumed else False

    @property
    def assumed(self) -> Mapping[str, str]:
        """Nodes of pods by uid whose binding is assumed and not yet seen."""
        return self._assumed

    @contextmanager
    def supposing(
        self, *, present: Iterable[Pod] = (), absent: Iterable[str] = ()
    ) -> Iterator[None]:
        """Within the context, decide as if things were otherwise.

        Args:
            present: pods to be counted as running on their `node_name`.
            absent: uids of pods to be left out.
        """
        extra = list(present)
        gone = [
            pod
            for uid in dict.fromkeys((*absent, *(pod.uid for pod in extra)))
            if (pod := self._placed.get(uid)) is not None
        ]
        for pod in gone:
            self._detach(pod.uid)
        for pod in extra:
            self._attach(pod)
        try:
            yield
        finally:
            for pod in extra:
                self._detach(pod.uid)
            for pod in gone:
                self._attach(pod)

    # What decisions ask

    @property
    def pods(self) -> PlacedPods:
        """The running pods, assumed ones included."""
        return self._placed

    def class_name_of(self, pod: Pod) -> str | None:
        """The class that applies to a pod.

        That of its namespace; only where that has none does the pod's annotation decide.
        """
        return self._namespace(pod.namespace).class_name or pod.class_annotation

    def class_of(self, pod: Pod) -> CompiledClass | None:
        """The class that applies to a pod; None for none, or one that does not exist."""
        name = self.class_name_of(pod)
        return self._classes.get(name) if name is not None else None

    def class_key(self, pod: Pod) -> Hashable:
        """Name and version of the class that applies to a pod: equal means the same rules."""
        name = self.class_name_of(pod)
        found = self._classes.get(name) if name is not None else None
        return name, found.key if found is not None else None

    def get_class(self, name: str) -> CompiledClass | None:
        """The class of a name, None if there is none."""
        return self._classes.get(name)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """Labels of a namespace; empty for one that is not known."""
        return self._namespace(name).labels

    def filling(self, labels: Mapping[str, str]) -> Selector | None:
        """What a missing selector of a class is filled with for a pod with these labels."""
        return filling_for(self.default_label_keys, labels)

    # Upkeep

    def _namespace(self, name: str) -> _Namespace:
        return self._namespaces.get(name, _UNKNOWN_NAMESPACE)

    def _changed(self, changed: bool) -> bool:
        self.version += changed
        return changed

    def _pod(self, uid: str) -> Pod:
        pod = self._placed.get(uid)
        assert pod is not None, f"pod {uid} is indexed and gone"
        return pod

    def _candidates(self, pods: PodSet) -> Iterator[tuple[Pod, Mapping[str, str]]]:
        for pod in self._placed.candidates(pods):
            yield pod, self.namespace_labels(pod.namespace)

    def _attach(self, pod: Pod) -> None:
        self._placed.add(pod)
        self.counters.add(pod, self.namespace_labels(pod.namespace), 1)
        class_name = self.class_name_of(pod)
        if class_name is not None:
            self._by_class.setdefault(class_name, set()).add(pod.uid)
        self._carry(pod)

    def _detach(self, uid: str) -> None:
        pod = self._placed.remove(uid)
        self.counters.add(pod, self.namespace_labels(pod.namespace), -1)
        class_name = self.class_name_of(pod)
        if class_name is not None:
            discard(self._by_class, class_name, uid)
        self._uncarry(pod)

    def _carry(self, pod: Pod) -> None:
        cls = self.class_of(pod)
        constraints = cls.constraints if cls is not None else None
        terms: list[tuple[Carried, int]] = []
        if cls is not None and constraints is not None and constraints.has_pod_terms:
            terms += _carried(constraints, pod, cls.name, self.filling(pod.labels))
        if self._own_terms and pod.own.has_pod_terms:
            terms += _carried(pod.own, pod, "", None)
        if terms:
            self._carriers[pod.uid] = tuple(
                (self.carried.add(carried, pod.node_name, weight), weight)
                for carried, weight in terms
            )

    def _uncarry(self, pod: Pod) -> None:
        for term, weight in self._carriers.pop(pod.uid, ()):
            self.carried.remove(term, pod.node_name, weight)


def _carried(
    constraints: Constraints, pod: Pod, class_name: str, filling: Selector | None
) -> Iterator[tuple[Carried, int]]:
    """The terms that a running pod carries, with weights; without those that match nothing."""
    repelling = ((1, template) for template in constraints.anti_affinity)
    hard = ((HARD_POD_AFFINITY_WEIGHT, template) for template in constraints.affinity)
    for repels, weighted in ((True, repelling), (False, (*hard, *constraints.preferred))):
        for weight, template in weighted:
            term = template.bind(pod.namespace, pod.labels, filling)
            if term.pods.selector is not None:
                yield Carried(term, class_name, repels), weight
