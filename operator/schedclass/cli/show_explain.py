"""`schedclass explain` for people."""

from collections.abc import Iterable, Sequence

from schedclass.cli.screen import Cell, Screen, count
from schedclass.domain.insight.checks import Violation
from schedclass.domain.insight.explain_class import ClassExplanation, ClassUsage
from schedclass.domain.insight.explain_pod import PodExplanation
from schedclass.domain.insight.explanation import Explanation, Step
from schedclass.domain.insight.simulation import Judgement, NodeVerdict
from schedclass.domain.insight.world import Health

NODES_SHOWN = 50
"""Rows of a table of nodes; `-o json` has all of them."""


def show_steps(screen: Screen, steps: Iterable[Step], first: int = 1) -> None:
    """Number the steps, from `first` on."""
    for number, step in enumerate(steps, first):
        screen.line((f"{number:>3}. ", "dim"), (step.rule, "head"), f": {step.says}")
        for rest in step.rests_on:
            screen.line(("       from ", "dim"), (rest, "dim"))
        for finding in step.findings:
            screen.line("       ", (finding.reason.value, "warn"), f": {finding}")


def show_outcome(screen: Screen, outcome: str) -> None:
    """The end of the story."""
    screen.line()
    screen.line(("=> ", "head"), outcome)


def show_namespace(screen: Screen, told: Explanation) -> None:
    """Explain a namespace."""
    screen.line((f"Namespace {told.subject.name}", "head"))
    show_steps(screen, told.steps)
    show_outcome(screen, told.outcome)


def show_pod(screen: Screen, told: PodExplanation, events: Sequence[str]) -> None:
    """Explain a pod."""
    screen.line((f"Pod {told.subject.namespace}/{told.subject.name}", "head"))
    show_steps(screen, told.steps)
    show_end(screen, told, events)


def show_end(screen: Screen, told: PodExplanation, events: Sequence[str]) -> None:
    """What comes after the steps of a pod."""
    if told.judgement is not None:
        show_judgement(screen, told.judgement)
    show_violations(screen, told.violations)
    show_outcome(screen, told.outcome)
    word = told.scheduler_says
    if word is not None:
        said = ": ".join(part for part in (word.reason, word.message) if part)
        screen.line(("   the scheduler says: ", "dim"), f"PodScheduled={word.status} {said}")
    for event in events:
        screen.line(("   Event: ", "dim"), event)


def show_judgement(screen: Screen, judgement: Judgement) -> None:
    """A table of nodes: first those that pass, by score, then the others."""
    ranked = sorted(judgement.verdicts, key=lambda v: (not v.passed, -(v.score or 0), v.node))
    screen.heading(f"Nodes, as {judgement.scheduler} sees them")
    screen.table(
        ("NODE", "VERDICT", "SCORE", "RULE", "REASON", "DETAIL"),
        [row for verdict in ranked[:NODES_SHOWN] for row in _rows(verdict, judgement)],
        "  ",
    )
    hidden = len(ranked) - NODES_SHOWN
    if hidden > 0:
        screen.line((f"  … {count(hidden, 'more node')}; -o json has all", "dim"))


def _rows(verdict: NodeVerdict, judgement: Judgement) -> list[Sequence[Cell]]:
    if verdict.passed:
        parts = "  ".join(f"{plugin} {score}" for plugin, score in verdict.scores.items())
        if verdict.class_scores:
            of_class = (f"{plugin} {score}" for plugin, score in verdict.class_scores.items())
            parts += f" ({', '.join(of_class)})"
        chosen = verdict.node == judgement.node
        word: Cell = ("chosen" if chosen else "passed", "good")
        return [(verdict.node, word, str(verdict.score), "", "", (parts, "dim"))]
    return [
        (
            verdict.node if i == 0 else "",
            ("rejected", "bad") if i == 0 else "",
            "",
            check.rule + (" (model)" if check.modelled else ""),
            check.reason.value,
            check.message,
        )
        for i, check in enumerate(verdict.rejections)
    ]


def show_violations(screen: Screen, violations: Sequence[Violation]) -> None:
    """What a pod breaks."""
    for violation in violations:
        screen.line()
        screen.line((violation.finding.reason.value, "bad"), f": {violation.finding}")


def show_class(screen: Screen, told: ClassExplanation, *, whole: bool) -> None:
    """Explain a class; `whole` as in `show_usage`."""
    screen.line((f"SchedulingClass {told.class_name}", "head"))
    show_steps(screen, (told.step,))
    if told.nodes:
        screen.heading("Nodes")
        ranked = sorted(told.nodes, key=lambda node: (not node.allowed, node.node))
        screen.table(
            ("NODE", "ALLOWED", "READY", "PODS", "WHY NOT"),
            [
                (
                    node.node,
                    ("yes", "good") if node.allowed else ("no", "bad"),
                    "yes" if node.ready else ("no", "warn"),
                    str(node.pods),
                    node.why,
                )
                for node in ranked[:NODES_SHOWN]
            ],
            "  ",
        )
        if len(ranked) > NODES_SHOWN:
            screen.line((f"  … {count(len(ranked) - NODES_SHOWN, 'more node')}", "dim"))
    screen.heading("Namespaces")
    show_usage(screen, told.usage, whole=whole)
    show_violations(screen, told.violations)
    show_outcome(screen, told.outcome)


def show_usage(screen: Screen, used: ClassUsage, *, whole: bool, only: str = "") -> None:
    """Who uses a class; `whole`: all namespaces could be seen; `only`: the one asked for."""
    style = "good" if used.health is Health.READY else "bad"
    screen.line(f"class {used.class_name}: ", (used.health.value, style))
    if used.uses:
        screen.table(
            ("NAMESPACE", "THROUGH", "PODS", "PENDING", "VIOLATIONS"),
            [
                (
                    use.namespace,
                    "its own request" if use.through == use.namespace else use.through,
                    str(use.pods),
                    (str(use.pending) if use.pending else "", "warn"),
                    (str(use.violations) if use.violations else "", "bad"),
                )
                for use in used.uses
            ],
        )
    elif only and whole:
        screen.line(f"namespace {only} is not bound to it")
    else:
        screen.line(f"no namespace {'' if whole else 'that can be seen '}is bound to it")
    for namespace in used.overridden:
        screen.line(("! ", "warn"), f"{namespace} asks for it and is overridden by an ancestor")
