"""The running pods, found by namespace and by the label pairs that terms ask for."""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Final

from schedclass.domain.grouped import discard
from schedclass.domain.scheduling.pods import Pod
from schedclass.domain.scheduling.podsets import PodSet, Selector

POSTINGS_MAX: Final = 32
"""Label keys for which pods are listed by value; those asked for last are kept."""

_Posting = dict[str, dict[str, set[str]]]  # value -> namespace -> uids
_NONE: Final[dict[str, set[str]]] = {}


class PlacedPods:
    """Pods by uid, each on the node of its `node_name`."""

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}
        self._by_namespace: dict[str, set[str]] = {}
        self._by_node: dict[str, set[str]] = {}
        self._postings: OrderedDict[str, _Posting] = OrderedDict()

    def __len__(self) -> int:
        """How many pods there are."""
        return len(self._pods)

    def __iter__(self) -> Iterator[Pod]:
        """All pods."""
        return iter(self._pods.values())

    def get(self, uid: str) -> Pod | None:
        """The pod of a uid, None if it is not here."""
        return self._pods.get(uid)

    def in_namespace(self, namespace: str) -> list[Pod]:
        """The pods of a namespace, as a list of its own."""
        return [self._pods[uid] for uid in self._by_namespace.get(namespace, ())]

    def on_node(self, node: str) -> list[Pod]:
        """The pods on a node, as a list of its own."""
        return [self._pods[uid] for uid in self._by_node.get(node, ())]

    def add(self, pod: Pod) -> None:
        """Add a pod whose uid is not here yet."""
        self._pods[pod.uid] = pod
        self._by_namespace.setdefault(pod.namespace, set()).add(pod.uid)
        self._by_node.setdefault(pod.node_name, set()).add(pod.uid)
        for key, posting in self._postings.items():
            _post(posting, key, pod)

    def remove(self, uid: str) -> Pod:
        """Take out a pod that is here."""
        pod = self._pods.pop(uid)
        discard(self._by_namespace, pod.namespace, uid)
        discard(self._by_node, pod.node_name, uid)
        for key, posting in self._postings.items():
            value = pod.labels.get(key)
            if value is not None:
                discard(posting[value], pod.namespace, uid)
                if not posting[value]:
                    del posting[value]
        return pod

    def candidates(self, pods: PodSet) -> Iterable[Pod]:
        """Some pods among which all pods of a set are."""
        if pods.selector is None:
            return ()
        if pods.namespace_selector is None:
            in_namespaces = [self._uids(name, pods.selector) for name in pods.namespaces]
        else:  # any namespace may have the labels asked for
            in_namespaces = [self._uids(name, pods.selector) for name in self._by_namespace]
        return (self._pods[uid] for uid in chain.from_iterable(in_namespaces))

    def _uids(self, namespace: str, selector: Selector) -> Collection[str]:
        """Pods of a namespace with the rarest pair that a selector demands."""
        lists: list[Collection[str]] = [
            self._posting(key).get(value, _NONE).get(namespace, ())
            for key, value in selector.equals
        ]
        return min(lists, key=len) if lists else self._by_namespace.get(namespace, ())

    def _posting(self, key: str) -> _Posting:
        posting = self._postings.get(key)
        if posting is None:
            posting = self._postings[key] = {}
            for pod in self:
                _post(posting, key, pod)
            if len(self._postings) > POSTINGS_MAX:
                self._postings.popitem(last=False)
        else:
            self._postings.move_to_end(key)
        return posting


def _post(posting: _Posting, key: str, pod: Pod) -> None:
    value = pod.labels.get(key)
    if value is not None:
        posting.setdefault(value, {}).setdefault(pod.namespace, set()).add(pod.uid)
