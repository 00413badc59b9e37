"""Rules of pod affinity and anti-affinity, and of the label keys that they share with spread."""

from collections import Counter

from schedclass.domain.findings import Reason
from schedclass.domain.label_syntax import why_not_dns_label
from schedclass.domain.podfields import (
    PREFERRED,
    REQUIRED,
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
)
from schedclass.domain.validation.labels import (
    check_label_key,
    check_label_selector,
)
from schedclass.domain.validation.node_selection import check_weight
from schedclass.domain.validation.report import Report, item, quoted


def check_pod_affinity(affinity: PodAffinity | PodAntiAffinity, path: str, report: Report) -> None:
    """Report what the API server refuses in pod affinity or anti-affinity.

    Other than in a pod, `matchLabelKeys` and `mismatchLabelKeys` may stand without a
    `labelSelector`: a class leaves it out to have it filled per application.
    """
    attracts = isinstance(affinity, PodAffinity)
    for i, term in enumerate(affinity.required):
        _check_term(term, item(f"{path}.{REQUIRED}", i), report, attracts=attracts)
    for i, weighted in enumerate(affinity.preferred):
        weighted_path = item(f"{path}.{PREFERRED}", i)
        check_weight(weighted.weight, f"{weighted_path}.weight", report)
        _check_term(
            weighted.pod_affinity_term,
            f"{weighted_path}.podAffinityTerm",
            report,
            attracts=attracts,
        )


def _check_term(term: PodAffinityTerm, path: str, report: Report, *, attracts: bool) -> None:
    check_label_selector(term.label_selector, f"{path}.labelSelector", report)
    check_label_selector(term.namespace_selector, f"{path}.namespaceSelector", report)
    for i, name in enumerate(term.namespaces):
        if (problem := why_not_dns_label(name)) is not None:
            report.error(
                item(f"{path}.namespaces", i), f"{quoted(name)} is no namespace: it {problem}"
            )
    check_match_label_keys(term.match_label_keys, term.label_selector, path, report)
    for i, key in enumerate(term.mismatch_label_keys):
        check_label_key(key, item(f"{path}.mismatchLabelKeys", i), report)
    mismatched = frozenset(term.mismatch_label_keys)
    for i, key in enumerate(term.match_label_keys):
        if key in mismatched:
            report.error(
                item(f"{path}.matchLabelKeys", i),
                f"{quoted(key)} is in mismatchLabelKeys as well; keep it in one of the two",
            )
    check_topology_key(term.topology_key, path, report)
    if attracts and _is_only_negative(term):
        report.warn(
            Reason.NEGATIVE_SELECTOR,
            f"{path}.labelSelector",
            "has only NotIn or DoesNotExist, so it selects all pods without the label, too; "
            "add what the pods to be near have in common",
        )


def check_topology_key(key: str, path: str, report: Report) -> None:
    """Report a topology key that is missing or no label key."""
    if key:
        check_label_key(key, f"{path}.topologyKey", report)
    else:
        report.error(
            f"{path}.topologyKey", "is missing; name a node label, e.g. topology.kubernetes.io/zone"
        )


def check_match_label_keys(
    keys: tuple[str, ...], selector: LabelSelector | None, path: str, report: Report
) -> None:
    """Report ill-formed keys, and those that the selector names more than once.

    KEP-3633 merges each key with the pod's value into the selector and then refuses a selector
    with the key twice. For a pod that lacks the label nothing is merged, so only a selector that
    has the key twice by itself is refused.
    """
    for i, key in enumerate(keys):
        check_label_key(key, item(f"{path}.matchLabelKeys", i), report)
    if selector is None:
        return
    named = Counter(requirement.key for requirement in selector.match_expressions)
    named.update(selector.match_labels.keys())
    for i, key in enumerate(keys):
        if named[key] > 1:
            report.error(
                item(f"{path}.matchLabelKeys", i),
                f"{quoted(key)} is named more than once in labelSelector as well; "
                "keep it in one of the two",
            )


def _is_only_negative(term: PodAffinityTerm) -> bool:
    selector = term.label_selector
    return (
        selector is not None
        and not selector.match_labels
        and not term.match_label_keys
        and bool(selector.match_expressions)
        and all(
            requirement.operator in ("NotIn", "DoesNotExist")
            for requirement in selector.match_expressions
        )
    )
