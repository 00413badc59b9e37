"""What the commands do: gather, decide, show. Each returns its exit code."""

import sys
from typing import Any

from schedclass.cli.documents import document, text_of
from schedclass.cli.options import Common, Output
from schedclass.cli.problems import FOUND, NotThere
from schedclass.cli.screen import Screen
from schedclass.cli.source import load_world
from schedclass.domain.insight import checks
from schedclass.domain.insight.checks import CheckReport
from schedclass.domain.insight.snapshot import Part
from schedclass.domain.insight.tenant_tree import TreeFilter, tenant_tree
from schedclass.domain.insight.world import World

CLUSTER_PARTS = frozenset(set(Part) - {Part.WORKLOADS, Part.EVENTS})


def _print(kind: str, world: World, common: Common, body: dict[str, Any]) -> None:
    sys.stdout.write(text_of(document(kind, world.snapshot, body), common.output))


def _tell_unknown(world: World) -> None:
    for part, why in sorted(world.snapshot.unknown.items()):
        sys.stderr.write(f"note: {part.value}: {why}\n")


def tree(common: Common, *, root: str, **wanted: Any) -> int:
    """`schedclass tree`."""
    world = load_world(common, CLUSTER_PARTS)
    if root and root not in world.namespaces:
        raise NotThere(_no_namespace(world, root))
    rows = tenant_tree(world, TreeFilter(root=root, **wanted))
    if common.output is not Output.TABLE:
        _print("TenantTree", world, common, {"namespaces": rows})
        return 0
    _tell_unknown(world)
    if not rows:
        sys.stderr.write("note: no namespace to show; --all shows those without a class too\n")
        return 0
    from schedclass.cli.show_tree import show_tree

    show_tree(Screen(), rows)
    return 0


def _no_namespace(world: World, name: str) -> str:
    seen = world.snapshot.knows(Part.NAMESPACES)
    why = (
        "" if seen else f" among those that can be seen ({world.snapshot.unknown[Part.NAMESPACES]})"
    )
    return f"there is no namespace {name}{why}"


def check(common: Common) -> int:
    """`schedclass check`."""
    world = load_world(common, CLUSTER_PARTS)
    report = checks.check(world)
    if common.namespace and not common.all_namespaces:
        report = _within(report, common.namespace)
    if common.output is Output.TABLE:
        from schedclass.cli.show_check import show_check

        _tell_unknown(world)
        show_check(Screen(), report)
    else:
        _print("CheckReport", world, common, _report(report))
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
