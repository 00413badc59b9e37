"""`schedclass check` for people."""

from schedclass.cli.screen import Screen, count
from schedclass.domain.findings import Severity
from schedclass.domain.insight.checks import CheckReport


def show_check(screen: Screen, report: CheckReport) -> None:
    """One line for each violation, then the sum."""
    if report.violations:
        screen.table(
            ("KIND", "OBJECT", "CLASS", "NODE", "REASON", "MESSAGE"),
            (
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
                for violation in report.violations
            ),
        )
        screen.line()
    examined = ", ".join(
        count(number, _SINGULAR[kind], kind) for kind, number in report.examined.items()
    )
    found = count(len(report.violations), "violation")
    screen.line((found, "bad" if report.violations else "good"), f" in {examined}")
    for sentence in report.unjudged:
        screen.line((f"not judged: {sentence}", "warn"))


_SINGULAR = {"classes": "class", "namespaces": "namespace", "pods": "pod", "nodes": "node"}
