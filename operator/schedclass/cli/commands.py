"""What the commands do: gather, decide, show. Each returns its exit code."""

import json
import sys
from collections.abc import Mapping
from typing import Any, Final

from schedclass.cli.documents import document, text_of
from schedclass.cli.options import Common, Output
from schedclass.cli.problems import FOUND, CliError, NotThere
from schedclass.cli.screen import Screen, tell
from schedclass.cli.source import load_world
from schedclass.domain.insight import checks
from schedclass.domain.insight.checks import CheckReport
from schedclass.domain.insight.narrowing import usage_within
from schedclass.domain.insight.snapshot import Part
from schedclass.domain.insight.tenant_tree import TreeFilter, tenant_tree
from schedclass.domain.insight.world import Health, World
from schedclass.domain.near import did_you_mean

CLUSTER_PARTS: Final = frozenset(set(Part) - {Part.WORKLOADS})
"""What answers about what is there rest on."""


def print_document(kind: str, world: World, common: Common, body: Mapping[str, Any]) -> None:
    """Print a result for programs."""
    found = document(kind, world.snapshot, body)
    text = text_of(found, common.output)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # half a character, as in the name of a file; JSON is YAML too
        text = json.dumps(found, indent=2) + "\n"
    sys.stdout.write(text)


def tell_unknown(world: World) -> None:
    """Say to a person what could not be seen."""
    for part, why in sorted(world.snapshot.unknown.items()):
        tell("note", f"{part.value}: {why}")


def no_namespace(world: World, name: str) -> str:
    """The sentence about a namespace that is not there."""
    if world.snapshot.knows(Part.NAMESPACES):
        return f"there is no namespace {name}{did_you_mean(name, world.namespaces)}"
    return f"namespace {name} cannot be seen: {world.snapshot.unknown[Part.NAMESPACES]}"


def only_namespace(common: Common, world: World) -> str:
    """The namespace of `-n` to which an answer is restricted; empty for all of them.

    Raises:
        NotThere: there is none of that name, or nothing that was given concerns it. In a cluster
            of which namespaces are not all known there may be one.
    """
    if not common.namespace or common.all_namespaces:
        return ""
    sure = common.offline or world.snapshot.knows(Part.NAMESPACES)
    if sure and common.namespace not in world.namespaces:
        raise NotThere(no_namespace(world, common.namespace))
    return common.namespace


def tree(common: Common, *, root: str, class_name: str, **wanted: Any) -> int:
    """`schedclass tree`."""
    world = load_world(common, CLUSTER_PARTS)
    if root and root not in world.namespaces:
        raise NotThere(no_namespace(world, root))
    if class_name and class_name not in world.bound and world.exists(class_name) is False:
        raise NotThere(no_class(world, class_name))
    only = only_namespace(common, world)
    if root and only not in ("", root):
        raise CliError(f"{root} and -n {only} name two namespaces; give one of them")
    unseen = bool(only) and only not in world.namespaces
    rows = () if unseen else tenant_tree(world, TreeFilter(root or only, class_name, **wanted))
    if common.output is not Output.TABLE:
        print_document("TenantTree", world, common, {"namespaces": rows})
        return 0
    tell_unknown(world)
    if not rows:
        if world.snapshot.knows(Part.NAMESPACES):
            tell("note", "no namespace to show; --all shows those without a class too")
        else:
            tell("note", "no tenants: none can be seen")
        return 0
    from schedclass.cli.show_tree import show_tree

    show_tree(Screen(), rows)
    return 0


def check(common: Common, *, strict: bool) -> int:
    """`schedclass check`."""
    world = load_world(common, CLUSTER_PARTS, tolerant=True)
    report = checks.check(world, only_namespace(common, world))
    if common.output is Output.TABLE:
        from schedclass.cli.show_check import show_check

        tell_unknown(world)
        show_check(Screen(), report)
    else:
        print_document("CheckReport", world, common, _report(report))
    return FOUND if report.violations or (strict and report.notes) else 0


def _report(report: CheckReport) -> dict[str, Any]:
    return {
        "summary": {
            "violations": len(report.violations),
            "notes": len(report.notes),
            "examined": report.examined,
        },
        "violations": report.violations,
        "notes": report.notes,
        "notJudged": report.unjudged,
    }


def no_class(world: World, name: str) -> str:
    """The sentence about a class that is not there, and that nobody asks for."""
    near = did_you_mean(name, world.classes)
    return f"there is no SchedulingClass {name}, and nobody asks for it{near}"


def usage(common: Common, class_name: str) -> int:
    """`schedclass usage`."""
    from schedclass.domain.insight.explain_class import usage as usage_of

    world = load_world(common, CLUSTER_PARTS)
    used = usage_of(world, class_name)
    if used.health is Health.MISSING and not (used.uses or used.overridden):
        raise NotThere(no_class(world, class_name))
    only = only_namespace(common, world)
    if only:
        used = usage_within(used, only)
    if common.output is not Output.TABLE:
        print_document("ClassUsage", world, common, {"usage": used})
        return 0
    from schedclass.cli.show_explain import show_usage

    tell_unknown(world)
    show_usage(Screen(), used, whole=world.snapshot.knows(Part.NAMESPACES), only=only)
    return 0
