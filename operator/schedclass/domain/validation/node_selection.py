"""Rules of node affinity, required and preferred."""

from schedclass.domain.findings import Reason
from schedclass.domain.label_syntax import why_not_dns_subdomain
from schedclass.domain.podfields import (
    PREFERRED,
    REQUIRED,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from schedclass.domain.selectors import parses
from schedclass.domain.validation.labels import (
    check_label_key,
    check_label_value,
    check_values_count,
)
from schedclass.domain.validation.report import Report, item, quoted

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def check_node_affinity(affinity: NodeAffinity, path: str, report: Report) -> None:
    """Report what the API server refuses in a node affinity, and terms without any effect."""
    if affinity.required is not None:
        _check_node_selector(affinity.required, f"{path}.{REQUIRED}", report)
    for i, preferred in enumerate(affinity.preferred):
        preferred_path = item(f"{path}.{PREFERRED}", i)
        check_weight(preferred.weight, f"{preferred_path}.weight", report)
        # Label values of a preference are not checked by the API server: see `parses` for what
        # becomes of such a term.
        _check_term(
            preferred.preference, f"{preferred_path}.preference", report, check_values=False
        )


def check_weight(weight: int, path: str, report: Report) -> None:
    """Report a weight outside of 1 to 100."""
    if not 1 <= weight <= 100:
        report.error(path, f"must be from 1 to 100, not {weight}")


def _check_node_selector(selector: NodeSelector, path: str, report: Report) -> None:
    terms_path = f"{path}.nodeSelectorTerms"
    if not selector.node_selector_terms:
        report.error(
            terms_path, "needs at least one term; to allow every node leave the whole field out"
        )
    for i, term in enumerate(selector.node_selector_terms):
        _check_term(term, item(terms_path, i), report, check_values=True)


def _check_term(term: NodeSelectorTerm, path: str, report: Report, *, check_values: bool) -> None:
    if term.is_empty:
        report.warn(
            Reason.EMPTY_TERM, path, "is empty, and an empty term matches no node; remove it"
        )
    for i, requirement in enumerate(term.match_expressions):
        expression_path = item(f"{path}.matchExpressions", i)
        _check_expression(requirement, expression_path, report, check_values=check_values)
    for i, requirement in enumerate(term.match_fields):
        _check_field(requirement, item(f"{path}.matchFields", i), report)


def _check_expression(
    requirement: NodeSelectorRequirement, path: str, report: Report, *, check_values: bool
) -> None:
    operator, values = requirement.operator, requirement.values
    check_values_count(operator, len(values), path, report)
    if operator in ("Gt", "Lt") and len(values) != 1:
        report.error(
            f"{path}.values", f"needs exactly one value for operator {operator}, not {len(values)}"
        )
    elif operator not in _OPERATORS:
        report.error(
            f"{path}.operator",
            f"{quoted(operator)} is no operator of a node selector; use {', '.join(_OPERATORS)}",
        )
    elif not parses(requirement):
        _warn_unparsable(requirement, path, report, check_values=check_values)
    check_label_key(requirement.key, f"{path}.key", report)
    if check_values:
        for i, value in enumerate(values):
            check_label_value(value, item(f"{path}.values", i), report)


def _warn_unparsable(
    requirement: NodeSelectorRequirement, path: str, report: Report, *, check_values: bool
) -> None:
    """Warn about values that the API server accepts and the scheduler cannot read."""
    if requirement.operator in ("Gt", "Lt"):
        report.warn(
            Reason.UNMATCHABLE_TERM,
            f"{path}.values",
            f"{quoted(requirement.values[0])} is no number for {requirement.operator}, so the term "
            "matches no node; use a whole number in quotes",
        )
    elif not check_values and requirement.operator in ("In", "NotIn"):
        report.warn(
            Reason.UNMATCHABLE_TERM,
            f"{path}.values",
            "no label can have this value, so the term matches no node; correct it",
        )


def _check_field(requirement: NodeSelectorRequirement, path: str, report: Report) -> None:
    """The only field is the node's name, compared with exactly one value."""
    if requirement.operator not in ("In", "NotIn"):
        report.error(
            f"{path}.operator",
            f"{quoted(requirement.operator)} is no operator of matchFields; use In or NotIn",
        )
    elif len(requirement.values) != 1:
        report.error(
            f"{path}.values",
            f"needs exactly one node name, not {len(requirement.values)}; "
            "for several nodes use one term for each",
        )
    if requirement.key != "metadata.name":
        report.error(
            f"{path}.key",
            f"{quoted(requirement.key)} is no field of matchFields; use metadata.name, "
            "or matchExpressions for labels",
        )
        return
    for i, name in enumerate(requirement.values):
        if (problem := why_not_dns_subdomain(name)) is not None:
            report.error(
                item(f"{path}.values", i), f"{quoted(name)} is no name of a node: it {problem}"
            )
