"""What the commands do: gather, decide, show. Each returns its exit code."""

import sys
from collections.abc import Mapping
from typing import Any, Final

from schedclass.cli.documents import document, text_of
from schedclass.cli.options import Common, Output
from schedclass.cli.problems import FOUND, NotThere
from schedclass.cli.screen import Screen
from schedclass.cli.source import load_world
from schedclass.domain.insight import checks
from schedclass.domain.insight.checks import CheckReport
from schedclass.domain.insight.snapshot import Part
from schedclass.domain.insight.tenant_tree import TreeFilter, tenant_tree
from schedclass.domain.insight.world import Health, World

CLUSTER_PARTS: Final = frozenset(set(Part) - {Part.WORKLOADS, Part.EVENTS})


def print_document(kind: str, world: World, common: Common, body: Mapping[str, Any]) -> None:
    """Print a result for programs."""
    sys.stdout.write(text_of(document(kind, world.snapshot, body), common.output))


def tell_unknown(world: World) -> None:
    """Say to a person what could not be seen."""
    for part, why in sorted(world.snapshot.unknown.items()):
        sys.stderr.write(f"note: {part.value}: {why}\n")


def no_namespace(world: World, name: str) -> str:
    """The sentence about a namespace that is not there."""
    if world.snapshot.knows(Part.NAMESPACES):
        return f"there is no namespace {name}"
    return f"namespace {name} cannot be seen: {world.snapshot.unknown[Part.NAMESPACES]}"


def tree(common: Common, *, root: str, **wanted: Any) -> int:
    """`schedclass tree`."""
    world = load_world(common, CLUSTER_PARTS)
    if root and root not in world.namespaces:
        raise NotThere(no_namespace(world, root))
    rows = tenant_tree(world, TreeFilter(root=root, **wanted))
    if common.output is not Output.TABLE:
        print_document("TenantTree", world, common, {"namespaces": rows})
        return 0
    tell_unknown(world)
    if not rows:
        if world.snapshot.knows(Part.NAMESPACES):
            sys.stderr.write("note: no namespace to show; --all shows those without a class too\n")
        return 0
    from schedclass.cli.show_tree import show_tree

    show_tree(Screen(), rows)
    return 0


def check(common: Common) -> int:
    """`schedclass check`."""
    world = load_world(common, CLUSTER_PARTS)
    report = checks.check(world)
    if common.namespace and not common.all_namespaces:
        report = _within(report, common.namespace)
    if common.output is Output.TABLE:
        from schedclass.cli.show_check import show_check

        tell_unknown(world)
        show_check(Screen(), report)
    else:
        print_document("CheckReport", world, common, _report(report))
    return FOUND if report.violations else 0


def _within(report: CheckReport, namespace: str) -> CheckReport:
    kept = tuple(
        violation
        for violation in report.violations
        if namespace in (violation.subject.namespace, violation.subject.name)
    )
    return CheckReport(kept, report.examined, report.unjudged)


def _report(report: CheckReport) -> dict[str, Any]:
    return {
        "summary": {"violations": len(report.violations), "examined": report.examined},
        "violations": report.violations,
        "notJudged": report.unjudged,
    }


def usage(common: Common, class_name: str) -> int:
    """`schedclass usage`."""
    from schedclass.domain.insight.explain_class import usage as usage_of

    world = load_world(common, CLUSTER_PARTS)
    used = usage_of(world, class_name)
    if used.health is Health.MISSING and not (used.uses or used.overridden):
        raise NotThere(f"there is no SchedulingClass {class_name}, and nobody asks for it")
    if common.output is not Output.TABLE:
        print_document("ClassUsage", world, common, {"usage": used})
        return 0
    from schedclass.cli.show_explain import show_usage

    tell_unknown(world)
    show_usage(Screen(), used, whole=world.snapshot.knows(Part.NAMESPACES))
    return 0
