"""What of a class has no effect on a pod, because nothing fills its open labelSelectors."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from schedclass.domain.findings import Finding, Reason
from schedclass.domain.open_terms import OpenTerms, TermKind
from schedclass.domain.scheduling.podsets import missing_keys
from schedclass.domain.schedulingclass import SchedulingClass


@dataclass(frozen=True, slots=True)
class Unfilled:
    """Terms of a class that select no pod when they are applied to one certain pod.

    Attributes:
        terms: which; all that are open, as all are filled from the same labels.
        missing: the label keys that the pod lacks; empty where no keys are configured.
    """

    terms: tuple[OpenTerms, ...]
    missing: tuple[str, ...]


def unfilled(
    cls: SchedulingClass | None, labels: Mapping[str, object], keys: Sequence[str]
) -> Unfilled | None:
    """Say what of a class has no effect on a pod; None if all of it has.

    The rule is that of `filling_for`: a labelSelector that is left out is filled from the pod's
    own labels if it has all of them, and selects nothing otherwise.

    Args:
        cls: the class that applies; None for none. An invalid one has no terms.
        labels: the pod's labels.
        keys: the configured label keys (`defaultLabelSelectorKeys`).
    """
    if cls is None or not cls.open_terms:
        return None
    missing = missing_keys(keys, labels)
    return None if keys and not missing else Unfilled(cls.open_terms, missing)


def selector_not_filled(
    cls: SchedulingClass | None, labels: Mapping[str, object], keys: Sequence[str]
) -> Finding | None:
    """The finding about it, one sentence; None if all of the class has an effect.

    It names no pod, so that it is the same for all pods that lack the same labels. What to do comes
    first: a warning has room for 256 bytes. The arguments are those of `unfilled`.
    """
    found = unfilled(cls, labels, keys)
    if cls is None or found is None:
        return None
    why, way_out = "no keys are configured", "give the class one"
    if found.missing:
        several = len(found.missing) > 1
        why = f"the pod lacks label{'s' if several else ''} {_in_short(found.missing)}"
        way_out = f"add {'them' if several else 'it'}, or a labelSelector to the class"
    lack = f'{why} to fill a labelSelector of class "{cls.name}" from'
    message = f"{lack}; {way_out}; it {_effect(found.terms)}"
    return Finding(Reason.SELECTOR_NOT_FILLED, message)


def _effect(terms: Iterable[OpenTerms]) -> str:
    """What kube-scheduler makes of terms with a nil labelSelector.

    A required pod affinity is met on no node (InterPodAffinity). Nothing else counts or repels any
    pod; of a hard spread constraint no more is left than that a node needs its topologyKey.
    """
    dropped: list[str] = []
    unmet: list[str] = []
    for term in terms:
        (unmet if term.kind is TermKind.NEAR else dropped).append(str(term))
    effects = [f"counts no pods for its {', '.join(dropped)}"] if dropped else []
    effects += [f"leaves the pod Pending by its {term}" for term in unmet]
    return " and ".join(effects)


def _in_short(keys: Iterable[str]) -> str:
    """Label keys as a shell would expand them, `example.org/app.{kind,name}`.

    Written out, the default keys alone take half of the 256 bytes that a warning may have.
    """
    ends: dict[str, list[str]] = {}
    for key in keys:
        cut = max(key.rfind("/"), key.rfind(".")) + 1
        ends.setdefault(key[:cut], []).append(key[cut:])
    told: list[str] = []
    for start, found in ends.items():
        together = start and len(found) > 1
        told += [f"{start}{{{','.join(found)}}}"] if together else [start + end for end in found]
    return ", ".join(told)
