"""Finds, among many sets of pods, those that a given pod is in, without trying each."""

from collections.abc import Hashable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from schedclass.domain.scheduling.podsets import PodSet

ItemT = TypeVar("ItemT", bound=Hashable)

Probe = tuple[str, str] | None
_ANY_NAMESPACE: Final = None


class PodSetIndex(Generic[ItemT]):
    """Items under sets of pods.

    A set lies in buckets by namespace (or by "any", for a namespace selector) and by one pair that
    its selector demands (or by "none"), so a pod only meets sets that share a pair with it.
    """

    def __init__(self) -> None:
        self._buckets: dict[str | None, dict[Probe, dict[ItemT, PodSet]]] = {}
        self._probes: dict[ItemT, Probe] = {}

    def __len__(self) -> int:
        """How many items lie here, those aside whose set can have no pod."""
        return len(self._probes)

    def add(self, item: ItemT, pods: PodSet) -> None:
        """Put an item under a set; it must not be here yet."""
        if pods.selector is None:
            return
        probe = self._best_probe(pods)
        self._probes[item] = probe
        for namespace in _namespaces(pods):
            self._buckets.setdefault(namespace, {}).setdefault(probe, {})[item] = pods

    def discard(self, item: ItemT, pods: PodSet) -> None:
        """Take an item away that was put under this set; nothing happens if it is not here."""
        if item not in self._probes:
            return
        probe = self._probes.pop(item)
        for namespace in _namespaces(pods):
            by_probe = self._buckets[namespace]
            del by_probe[probe][item]
            if not by_probe[probe]:
                del by_probe[probe]
                if not by_probe:
                    del self._buckets[namespace]

    def matching(
        self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]
    ) -> Iterator[ItemT]:
        """The items whose set has a pod of that namespace with those labels, each once."""
        for bucket in (namespace, _ANY_NAMESPACE):
            by_probe = self._buckets.get(bucket)
            if by_probe is None:
                continue
            for probe in (None, *labels.items()):
                for item, pods in by_probe.get(probe, {}).items():
                    if bucket is _ANY_NAMESPACE and namespace in pods.namespaces:
                        continue  # met in the bucket of the namespace
                    if pods.has(namespace, namespace_labels, labels):
                        yield item

    def _best_probe(self, pods: PodSet) -> Probe:
        """The demanded pair that shares its buckets with the fewest others."""
        if pods.selector is None or not pods.selector.equals:
            return None
        places = [self._buckets.get(namespace, {}) for namespace in _namespaces(pods)]
        return min(
            pods.selector.equals, key=lambda pair: sum(len(place.get(pair, ())) for place in places)
        )


def _namespaces(pods: PodSet) -> list[str | None]:
    named: list[str | None] = [*pods.namespaces]
    return named if pods.namespace_selector is None else [*named, _ANY_NAMESPACE]
