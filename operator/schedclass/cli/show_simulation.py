"""`schedclass simulate` for people."""

from collections.abc import Sequence

from schedclass.cli.screen import Cell, Screen, count
from schedclass.cli.show_explain import show_judgement
from schedclass.domain.compliance import ViolationKind
from schedclass.domain.insight.checks import Violation
from schedclass.domain.insight.impact import Impact, Outcome
from schedclass.domain.insight.trial import Group

LINES_SHOWN = 50


def show_simulation(screen: Screen, groups: Sequence[Group]) -> None:
    """For each group the nodes as its first pod sees them, then its pods in turn."""
    for number, group in enumerate(groups):
        if number:
            screen.line()
        class_name = group.first.class_name
        told = f", class {class_name}" if class_name else ", no class"
        screen.line((group.name, "head"), told)
        if group.first.verdicts:
            show_judgement(screen, group.first)
        screen.heading(f"Placement of {count(len(group.placements), 'pod')}, in turn")
        screen.table(
            ("POD", "NODE", "WHY"),
            [
                (
                    placement.pod,
                    (placement.node, "good") if placement.node else ("none", "bad"),
                    _why(placement.message, placement.preempted),
                )
                for placement in group.placements[:LINES_SHOWN]
            ],
            "  ",
        )
        if len(group.placements) > LINES_SHOWN:
            screen.line((f"  … {len(group.placements) - LINES_SHOWN} more; -o json has all", "dim"))
    placed = sum(group.placed for group in groups)
    total = sum(len(group.placements) for group in groups)
    screen.line()
    screen.line(("=> ", "head"), f"{placed} of {count(total, 'pod')} placed")


def _why(message: str, preempted: Sequence[str]) -> str:
    return f"after ending {', '.join(preempted)}" if preempted else message


def show_findings(screen: Screen, findings: Sequence[Violation]) -> None:
    """What is wrong with classes and with what was given, a sentence each."""
    for violation in findings[:LINES_SHOWN]:
        style = "warn" if violation.is_note else "bad"
        of_object = violation.kind is ViolationKind.MANIFEST or bool(violation.finding.path)
        subject = f"{violation.subject}: " if of_object else ""
        screen.line(("! ", style), f"{subject}{violation.finding}")
    if len(findings) > LINES_SHOWN:
        screen.line((f"  … {len(findings) - LINES_SHOWN} more; -o json has all", "dim"))


def show_impact(screen: Screen, told: Impact) -> None:
    """What the changes do."""
    screen.heading(count(len(told.tenants), "tenant touched", "tenants touched"))
    if told.tenants:
        screen.table(
            ("NAMESPACE", "BEFORE", "AFTER", "PODS"),
            [
                (t.namespace, t.before or "no class", _after(t.before, t.after), str(t.pods))
                for t in told.tenants[:LINES_SHOWN]
            ],
            "  ",
        )
    for heading, style, violations in (
        ("running pod would break its class", "bad", told.breaking),
        ("running pod would no longer break its class", "good", told.mended),
    ):
        plural = heading.replace("pod would", "pods would").replace("its", "their")
        screen.heading(count(len(violations), heading, plural))
        for violation in violations[:LINES_SHOWN]:
            screen.line("  ", (str(violation.subject), style), f" {violation.finding}")
    _outcomes(screen, "waiting pod would start", told.starting)
    _outcomes(screen, "pod would wait for a node", told.stopping)
    _outcomes(screen, "pod would go elsewhere", told.moved)
    _outcomes(screen, "pod would end for good", told.ending)
    screen.line()


def _after(before: str | None, after: str | None) -> Cell:
    if before == after:
        return ("the same, changed", "warn")
    return (after or "no class", "warn")


def _outcomes(screen: Screen, heading: str, outcomes: Sequence[Outcome]) -> None:
    screen.heading(count(len(outcomes), heading, heading.replace("pod would", "pods would")))
    for outcome in outcomes[:LINES_SHOWN]:
        way = f"{outcome.before or 'no node'} -> {outcome.after or 'no node'}"
        screen.line(f"  {outcome.pod}: {way} ", (outcome.message, "dim"))
