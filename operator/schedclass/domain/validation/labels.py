"""Rules of labels and label selectors."""

from collections.abc import Mapping

from schedclass.domain.label_syntax import why_not_label_key, why_not_label_value
from schedclass.domain.podfields import LabelSelector, LabelSelectorRequirement
from schedclass.domain.validation.report import Report, entry, item, quoted


def check_label_key(key: str, path: str, report: Report) -> None:
    """Report a key that is no label key."""
    if (problem := why_not_label_key(key)) is not None:
        report.error(path, f"{quoted(key)} {problem}")


def check_label_value(value: str, path: str, report: Report) -> None:
    """Report a value that is no label value."""
    if (problem := why_not_label_value(value)) is not None:
        report.error(path, f"{quoted(value)} {problem}")


def check_labels(labels: Mapping[str, str], path: str, report: Report) -> None:
    """Report each ill-formed key and value of a map of labels."""
    for key, value in labels.items():
        check_label_key(key, entry(path, key), report)
        check_label_value(value, entry(path, key), report)


def check_label_selector(selector: LabelSelector | None, path: str, report: Report) -> None:
    """Report what the API server refuses in a label selector; None is legal."""
    if selector is None:
        return
    check_labels(selector.match_labels, f"{path}.matchLabels", report)
    for i, requirement in enumerate(selector.match_expressions):
        _check_requirement(requirement, item(f"{path}.matchExpressions", i), report)


def _check_requirement(requirement: LabelSelectorRequirement, path: str, report: Report) -> None:
    check_values_count(requirement.operator, len(requirement.values), path, report)
    if requirement.operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
        report.error(
            f"{path}.operator",
            f"{quoted(requirement.operator)} is no operator of a label selector; "
            "use In, NotIn, Exists or DoesNotExist",
        )
    check_label_key(requirement.key, f"{path}.key", report)
    for i, value in enumerate(requirement.values):
        check_label_value(value, item(f"{path}.values", i), report)


def check_values_count(operator: str, count: int, path: str, report: Report) -> None:
    """Report a list of values that does not go with one of the four common operators."""
    if operator in ("In", "NotIn") and count == 0:
        report.error(f"{path}.values", f"needs at least one value for operator {operator}")
    elif operator in ("Exists", "DoesNotExist") and count > 0:
        report.error(
            f"{path}.values",
            f"must be left out for operator {operator}; to compare values use In or NotIn",
        )
