"""Matching of label selectors and node selectors, exactly as kube-scheduler matches them.

Pure functions on plain mappings. Sources: `LabelSelector` and `NodeSelector` of the Kubernetes
API, and the NodeAffinity plugin for what becomes of a term that cannot be read.
"""

import re
from collections.abc import Mapping
from typing import Final

from schedclass.domain.label_syntax import why_not_label_key, why_not_label_value
from schedclass.domain.podfields import (
    LabelSelector,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)

_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_INT64: Final = range(-(2**63), 2**63)
_INT64_DIGITS: Final = 20  # sign and 19 digits; beyond it only leading zeros could help


def matches_label_selector(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy all conditions of a selector.

    None selects nothing, an empty selector everything. `NotIn` and `DoesNotExist` hold for labels
    without the key; an unknown operator never holds.
    """
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        holds(requirement.key, requirement.operator, requirement.values, labels)
        for requirement in selector.match_expressions
    )


def matches_node_selector(
    selector: NodeSelector, labels: Mapping[str, str], node_name: str
) -> bool:
    """Whether a node satisfies at least one term of a node selector.

    No terms match no node, and an empty term matches no node. A term that kube-scheduler cannot
    read (see `parses`) is passed over, the others still count.
    """
    return any(
        matches_node_selector_term(term, labels, node_name) for term in selector.node_selector_terms
    )


def matches_node_selector_term(
    term: NodeSelectorTerm, labels: Mapping[str, str], node_name: str
) -> bool:
    """Whether a node satisfies all expressions and fields of a term that has any."""
    if term.is_empty:
        return False
    return all(
        parses(requirement)
        and holds(requirement.key, requirement.operator, requirement.values, labels)
        for requirement in term.match_expressions
    ) and all(field_holds(requirement, node_name) for requirement in term.match_fields)


def matches_labels(wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether labels contain each wanted pair, as a pod's `nodeSelector` is matched."""
    return all(labels.get(key) == value for key, value in wanted.items())


def parses(requirement: NodeSelectorRequirement) -> bool:
    """Whether kube-scheduler can read a requirement on node labels.

    The API server lets some pass that the scheduler cannot read: `Gt` and `Lt` with a value that
    is no number of 64 bits, and in preferences values that no label can have.
    """
    operator, values = requirement.operator, requirement.values
    if operator in ("In", "NotIn"):
        well_formed = bool(values)
    elif operator in ("Exists", "DoesNotExist"):
        well_formed = not values
    elif operator in ("Gt", "Lt"):
        well_formed = len(values) == 1 and _int64(values[0]) is not None
    else:
        well_formed = False
    return (
        well_formed
        and why_not_label_key(requirement.key) is None
        and all(why_not_label_value(value) is None for value in values)
    )


def holds(key: str, operator: str, values: tuple[str, ...], labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy one requirement; an unknown operator never holds."""
    value = labels.get(key)
    match operator:
        case "In":
            answer = value is not None and value in values
        case "NotIn":
            answer = value is None or value not in values
        case "Exists":
            answer = value is not None
        case "DoesNotExist":
            answer = value is None
        case "Gt" | "Lt":
            answer = _compares(operator, _int64(value), values)
        case _:
            answer = False
    return answer


def _compares(operator: str, actual: int | None, values: tuple[str, ...]) -> bool:
    limit = _int64(values[0]) if len(values) == 1 else None
    if actual is None or limit is None:
        return False
    return actual > limit if operator == "Gt" else actual < limit


def field_holds(requirement: NodeSelectorRequirement, node_name: str) -> bool:
    """Whether a node of that name satisfies one requirement on its fields."""
    if len(requirement.values) != 1 or requirement.operator not in ("In", "NotIn"):
        return False
    # A field that a node does not have reads as empty.
    actual = node_name if requirement.key == "metadata.name" else ""
    return (actual == requirement.values[0]) is (requirement.operator == "In")


def _int64(text: str | None) -> int | None:
    """The value of a decimal number of 64 bits, or None; Python's own syntax is wider."""
    if text is None or _NUMBER.fullmatch(text) is None:
        return None
    if len(text) > _INT64_DIGITS:
        sign = text[0] if text[0] in "+-" else ""
        text = sign + (text.lstrip("+-").lstrip("0") or "0")
        if len(text) > _INT64_DIGITS:
            return None
    value = int(text)
    return value if value in _INT64 else None
