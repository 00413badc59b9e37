"""`schedclass check` for people."""

from collections.abc import Sequence

from schedclass.cli.screen import Screen, count
from schedclass.domain.findings import Severity
from schedclass.domain.insight.checks import CheckReport, Violation


def show_check(screen: Screen, report: CheckReport) -> None:
    """One line for each violation, then one for each note, then the sums."""
    if report.violations:
        _table(screen, report.violations)
    if report.notes:
        if report.violations:
            screen.line()
        screen.line(("Notes: these may be meant so, and fail with --strict only", "head"))
        _table(screen, report.notes, "  ")
    if report.violations or report.notes:
        screen.line()
    examined = ", ".join(
        count(number, _SINGULAR[kind], kind) for kind, number in report.examined.items()
    )
    found = count(len(report.violations), "violation")
    notes = f" and {count(len(report.notes), 'note')}" if report.notes else ""
    screen.line((found, "bad" if report.violations else "good"), (notes, "warn"), f" in {examined}")
    for sentence in report.unjudged:
        screen.line((f"not judged: {sentence}", "warn"))


def _table(screen: Screen, found: Sequence[Violation], indent: str = "") -> None:
    screen.table(
        ("KIND", "OBJECT", "CLASS", "NODE", "REASON", "MESSAGE"),
        [
            (
                violation.kind.value,
                str(violation.subject),
                violation.class_name,
                violation.node,
                (
                    violation.finding.reason.value,
                    "bad" if violation.finding.severity is Severity.ERROR else "warn",
                ),
                str(violation.finding),
            )
            for violation in found
        ],
        indent,
    )


_SINGULAR = {"classes": "class", "namespaces": "namespace", "pods": "pod", "nodes": "node"}
