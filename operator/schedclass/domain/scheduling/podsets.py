"""Sets of pods, as affinity terms and spread constraints name them: by namespace and labels.

The sets are compiled forms of label selectors, hashable, so that one set that many pods name is
counted once (see counters.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from schedclass.domain.podfields import LabelSelector

NO_LABELS: Final[Mapping[str, str]] = {}


class Condition(NamedTuple):
    """One condition on labels that is no plain equality."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels satisfy it; `NotIn` and `DoesNotExist` hold where the key is absent."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        return False


@dataclass(frozen=True, slots=True)
class Selector:
    """A label selector, compiled: equal selectors compare equal however they were written.

    Attributes:
        equals: pairs that labels must contain, sorted; from matchLabels and from In with one value.
        conditions: all other conditions, sorted.
    """

    equals: tuple[tuple[str, str], ...] = ()
    conditions: tuple[Condition, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels satisfy all conditions; a selector without any matches everything."""
        for key, value in self.equals:
            if labels.get(key) != value:
                return False
        return all(condition.holds(labels) for condition in self.conditions)

    @property
    def is_everything(self) -> bool:
        """Whether there is no condition."""
        return not self.equals and not self.conditions

    def also(self, equals: Mapping[str, str], conditions: tuple[Condition, ...] = ()) -> "Selector":
        """The selector with further conditions."""
        if not equals and not conditions:
            return self
        return _canonical({*self.equals, *equals.items()}, {*self.conditions, *conditions})


def compile_selector(selector: LabelSelector | None) -> Selector | None:
    """Compile a label selector; None, which matches nothing, stays None."""
    if selector is None:
        return None
    equals = set(selector.match_labels.items())
    conditions = set()
    for requirement in selector.match_expressions:
        if requirement.operator == "In" and len(requirement.values) == 1:
            equals.add((requirement.key, requirement.values[0]))
        else:
            conditions.add(
                Condition(requirement.key, requirement.operator, frozenset(requirement.values))
            )
    return _canonical(equals, conditions)


def _canonical(equals: set[tuple[str, str]], conditions: set[Condition]) -> Selector:
    return Selector(
        tuple(sorted(equals)),
        tuple(sorted(conditions, key=lambda c: (c.key, c.operator, sorted(c.values)))),
    )


@dataclass(frozen=True, slots=True)
class PodSet:
    """The pods that one affinity term or spread constraint speaks of.

    Attributes:
        namespaces: names of namespaces.
        namespace_selector: further namespaces by label; None for none.
        selector: pods by label; None for no pod at all.
    """

    namespaces: frozenset[str]
    namespace_selector: Selector | None
    selector: Selector | None
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Sets of pods are dictionary keys on every path; a dataclass would hash all parts anew.
        object.__setattr__(
            self, "_hash", hash((self.namespaces, self.namespace_selector, self.selector))
        )

    def __hash__(self) -> int:
        return self._hash

    def has(
        self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]
    ) -> bool:
        """Whether a pod of that namespace and with those labels is in the set."""
        if self.selector is None:
            return False
        in_namespace = namespace in self.namespaces or (
            self.namespace_selector is not None
            and self.namespace_selector.matches(namespace_labels)
        )
        return in_namespace and self.selector.matches(labels)


class Term(NamedTuple):
    """An affinity term for one pod: the set of pods and the topology to share or to avoid."""

    pods: PodSet
    topology_key: str


@dataclass(frozen=True, slots=True)
class TermTemplate:
    """A compiled `PodAffinityTerm` before it is applied to a pod."""

    selector: Selector | None
    namespaces: frozenset[str]
    namespace_selector: Selector | None
    topology_key: str
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()

    def bind(self, namespace: str, labels: Mapping[str, str], filling: Selector | None) -> Term:
        """Apply the term to a pod.

        A missing selector is filled first, the label keys are merged then, for those keys that the
        pod has (KEP-3633); a selector that stays missing stays so. Without namespaces and
        namespace selector the term speaks of the pod's own namespace.

        Args:
            namespace: the pod's namespace.
            labels: the pod's labels.
            filling: the selector to take for a missing one; None if there is none either.
        """
        selector = self.selector if self.selector is not None else filling
        if selector is not None and (self.match_label_keys or self.mismatch_label_keys):
            selector = selector.also(
                {key: labels[key] for key in self.match_label_keys if key in labels},
                tuple(
                    Condition(key, "NotIn", frozenset((labels[key],)))
                    for key in self.mismatch_label_keys
                    if key in labels
                ),
            )
        own = not self.namespaces and self.namespace_selector is None
        namespaces = frozenset((namespace,)) if own else self.namespaces
        return Term(PodSet(namespaces, self.namespace_selector, selector), self.topology_key)


@lru_cache(maxsize=4096)
def filling_selector(pairs: tuple[tuple[str, str], ...]) -> Selector:
    """The selector for exactly these pairs."""
    return Selector(equals=pairs)


def missing_keys(keys: Sequence[str], labels: Mapping[str, object]) -> tuple[str, ...]:
    """Those of the keys that labels lack, in their order."""
    return tuple(key for key in keys if key not in labels)


def filling_for(keys: tuple[str, ...], labels: Mapping[str, str]) -> Selector | None:
    """What a missing selector of a class is filled with for a pod.

    Args:
        keys: the configured label keys (`defaultLabelSelectorKeys`), sorted.
        labels: the pod's labels.

    Returns:
        A selector of the pod's own values of all the keys; None if the pod lacks one of them or
        no keys are configured.
    """
    if not keys or missing_keys(keys, labels):
        return None
    return filling_selector(tuple((key, labels[key]) for key in keys))
