"""Makes metrics and notes which kind of process exposes them, so that documents can list them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

PREFIX: Final = "schedclass"


class Role(StrEnum):
    """A kind of process; each exposes the metrics of what it does: a 0 of another would mislead."""

    WEBHOOK = "webhook"
    CONTROLLER = "controller"
    EXTENDER = "extender"


EVERYWHERE: Final = tuple(Role)
WEBHOOK: Final = (Role.WEBHOOK,)
CONTROLLER: Final = (Role.CONTROLLER,)
EXTENDER: Final = (Role.EXTENDER,)


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric, as documents and checks need it.

    Attributes:
        name: as it is exposed, for a histogram without `_bucket`, `_sum` and `_count`.
        kind: counter, gauge or histogram.
        labels: without a histogram's `le`.
        text: what it means.
        roles: which processes expose it.
        leader: whether only the replica that leads moves it.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str
    roles: tuple[Role, ...]
    leader: bool


class Maker:
    """Makes metrics, of which a registry receives those of one role.

    Attributes:
        definitions: every metric made, also those that the role does not expose.
    """

    def __init__(self, registry: CollectorRegistry, role: Role | None) -> None:
        """`role` None exposes all."""
        self.definitions: list[Definition] = []
        self._registry = registry
        self._role = role

    def gauge(
        self, name: str, text: str, *labels: str, roles: tuple[Role, ...], leader: bool = False
    ) -> Gauge:
        """A number that goes up and down."""
        made = Definition(f"{PREFIX}_{name}", "gauge", labels, text, roles, leader)
        return Gauge(made.name, text, labels, registry=self._note(made))

    def counter(
        self, name: str, text: str, *labels: str, roles: tuple[Role, ...], leader: bool = False
    ) -> Counter:
        """A number that only grows; its name ends in `_total`."""
        made = Definition(f"{PREFIX}_{name}", "counter", labels, text, roles, leader)
        return Counter(made.name, text, labels, registry=self._note(made))

    def kept_counter(
        self,
        name: str,
        text: str,
        *labels: str,
        roles: tuple[Role, ...],
        read: Callable[[], Iterable[tuple[Sequence[str], int]]],
    ) -> None:
        """Counts that somebody else keeps, by the values of the labels; read at each scrape."""
        made = Definition(f"{PREFIX}_{name}", "counter", labels, text, roles, leader=False)
        registry = self._note(made)
        if registry is not None:
            registry.register(_KeptCounts(made, read))

    def histogram(
        self,
        name: str,
        text: str,
        *labels: str,
        buckets: Sequence[float],
        roles: tuple[Role, ...],
        leader: bool = False,
    ) -> Histogram:
        """Numbers counted by their size."""
        made = Definition(f"{PREFIX}_{name}", "histogram", labels, text, roles, leader)
        return Histogram(made.name, text, labels, buckets=buckets, registry=self._note(made))

    def _note(self, made: Definition) -> CollectorRegistry | None:
        self.definitions.append(made)
        return self._registry if self._role is None or self._role in made.roles else None


class _KeptCounts(Collector):
    def __init__(
        self, made: Definition, read: Callable[[], Iterable[tuple[Sequence[str], int]]]
    ) -> None:
        self._made = made
        self._read = read

    def collect(self) -> Iterator[CounterMetricFamily]:
        family = CounterMetricFamily(self._made.name, self._made.text, labels=self._made.labels)
        for values, count in self._read():
            family.add_metric(values, count)
        yield family
