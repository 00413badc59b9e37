"""`schedclass simulate`: apply the what-ifs, place the pods, compare."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schedclass.cli.commands import CLUSTER_PARTS, only_namespace, print_document, tell_unknown
from schedclass.cli.options import Common, Output
from schedclass.cli.problems import FOUND, CliError
from schedclass.cli.screen import Screen, count, tell
from schedclass.cli.source import load_snapshot, policy_of, snapshot_of_manifests
from schedclass.domain.insight import changes, trial
from schedclass.domain.insight.changes import ChangeError
from schedclass.domain.insight.checks import Violation
from schedclass.domain.insight.consequences import (
    Wishes,
    consequences,
    faults_of,
    ignored_wishes,
    uncertain,
    without_effect,
)
from schedclass.domain.insight.impact import Impact, displaced, impact
from schedclass.domain.insight.narrowing import groups_concerned, groups_within, impact_within
from schedclass.domain.insight.snapshot import Part, Snapshot
from schedclass.domain.insight.trial import Group
from schedclass.domain.insight.world import World


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The changes that were asked for, as they were written.

    Attributes:
        set_class: `TENANT=CLASS`, `TENANT=` to take it off.
        change: manifests that replace or add objects.
        remove_node: names of nodes.
        relabel: `NODE:KEY=VALUE`, `NODE:KEY-` to take it off.
    """

    set_class: Sequence[str] = ()
    change: Sequence[str] = ()
    remove_node: Sequence[str] = ()
    relabel: Sequence[str] = ()


def simulate(common: Common, what_if: WhatIf) -> int:
    """`schedclass simulate`.

    Exit code 1 if a pod finds no node, a running one breaks, or something is wrong with classes
    that pods to come would have, or with the objects that were given. What is as it was without
    the change counts for nothing.
    """
    wishes = wishes_of(what_if)
    given = None
    if what_if.change:
        given = snapshot_of_manifests(tuple(what_if.change), common)
    base = load_snapshot(common, CLUSTER_PARTS, besides=given)
    if not base.knows(Part.NODES):
        raise CliError(f"nothing can be placed without nodes: {base.unknown[Part.NODES]}")
    told, policy = _described(what_if), policy_of(common, base)
    before = World(displaced(base), policy)
    after = World(_changed(World(base, policy), given, what_if, wishes), policy) if told else before
    only = only_namespace(common, after)
    groups, effects = trial.run(after), None
    as_before: tuple[str, ...] = ()
    changed = _given_namespaces(given)
    if told:
        effects, groups, as_before = _compare(before, after, groups, given, {*changed, *wishes})
    findings = _findings(before, after, wishes, changed, groups)
    caveats = (*trial.caveats(after), *uncertain(after, wishes), *as_before)
    if only:
        groups = groups_within(groups, only)
        effects = effects and impact_within(effects, only)
    if common.output is not Output.TABLE:
        body = _body(told, effects, findings, groups, caveats)
        print_document("Simulation", after, common, body)
    else:
        tell_unknown(after)
        _show(told, effects, findings, groups)
        for caveat in caveats:
            tell("note", caveat)
    unplaced = any(group.placed < len(group.placements) for group in groups)
    wrong = any(not finding.is_note for finding in findings)
    return FOUND if unplaced or wrong or (effects is not None and effects.breaking) else 0


def _compare(
    before: World,
    after: World,
    groups: tuple[Group, ...],
    given: Snapshot | None,
    changed: Collection[str],
) -> tuple[Impact, tuple[Group, ...], tuple[str, ...]]:
    """What a change does, the groups it concerns, and a sentence about the others if any."""
    as_it_is = trial.run(before)
    effects = impact(before, after, as_it_is, groups)
    concerned = groups_concerned(
        groups,
        as_it_is,
        namespaces={*changed, *(touched.namespace for touched in effects.tenants)},
        names=_given_groups(after, given),
    )
    shown = {group.name for group in concerned}
    others = sum(len(group.placements) for group in groups if group.name not in shown)
    if not others:
        return effects, concerned, ()
    said = f"{count(others, 'waiting pod')} that the change does not concern: not shown"
    return effects, concerned, (said,)


def _given_namespaces(given: Snapshot | None) -> set[str]:
    """The namespaces that a change is given for, themselves or by their Tenant."""
    if given is None:
        return set()
    named = {record.namespace.name for record in given.namespaces if not record.implied}
    return named | {tenant.target for tenant in given.tenants}


def _given_groups(after: World, given: Snapshot | None) -> set[str]:
    if given is None:
        return set()
    workloads = {workload.key for workload in given.workloads}
    return workloads | {after.group_of(record) for record in given.pods}


def _findings(
    before: World,
    after: World,
    wishes: Wishes,
    changed: Collection[str],
    groups: Sequence[Group],
) -> tuple[Violation, ...]:
    placing = {p.pod.partition("/")[0] for group in groups for p in group.placements}
    return (
        *consequences(before, after, wishes, {*placing, *changed}),
        *without_effect(before, after, wishes),
        *ignored_wishes(after, {*changed} - {*wishes}),
        *faults_of(before, after, changed),
    )


def _body(
    told: Sequence[str],
    effects: Impact | None,
    findings: Sequence[Violation],
    groups: Sequence[Group],
    caveats: Sequence[str],
) -> dict[str, Any]:
    return {
        "changes": told,
        "findings": findings,
        "impact": effects,
        "groups": groups,
        "summary": {
            "pods": sum(len(group.placements) for group in groups),
            "placed": sum(group.placed for group in groups),
        },
        "notModelled": caveats,
    }


def _show(
    told: Sequence[str],
    effects: Impact | None,
    findings: Sequence[Violation],
    groups: Sequence[Group],
) -> None:
    from schedclass.cli.show_simulation import show_findings, show_impact, show_simulation

    screen = Screen()
    if told:
        screen.line(("What if: ", "head"), "; ".join(told))
    if findings and told:
        screen.line()
    show_findings(screen, findings)
    if findings and groups and not told:
        screen.line()
    if effects is not None:
        show_impact(screen, effects)
    if groups:
        show_simulation(screen, groups)
    elif effects is None:
        tell("note", "no pod waits for a node, and no workload wants one")


def wishes_of(what_if: WhatIf) -> dict[str, str | None]:
    """The class that each tenant is given by `--set-class`, None for none.

    Raises:
        CliError: one is not written as it should be, or a tenant is given twice.
    """
    wishes: dict[str, str | None] = {}
    for change in what_if.set_class:
        tenant, class_name = _wish(change)
        if tenant in wishes:
            raise CliError(f"--set-class gives {tenant} a class twice; give it one")
        wishes[tenant] = class_name
    return wishes


def _described(what_if: WhatIf) -> list[str]:
    return [
        *(f"class {change}" for change in what_if.set_class),
        *(f"objects of {path}" for path in what_if.change),
        *(f"without node {name}" for name in what_if.remove_node),
        *(f"node label {change}" for change in what_if.relabel),
    ]


def _changed(
    world: World, given: Snapshot | None, what_if: WhatIf, wishes: Mapping[str, str | None]
) -> Snapshot:
    policy, base = world.policy, world.snapshot
    snapshot = base
    if given is not None:
        snapshot = changes.overlay(snapshot, replace(given, origin=""))
    try:
        for tenant, class_name in wishes.items():
            snapshot = changes.set_class(World(snapshot, policy), tenant, class_name)
        for name in what_if.remove_node:
            snapshot = changes.remove_node(snapshot, name)
        for node, labels in _relabels(what_if):
            snapshot = changes.relabel_node(snapshot, node, labels)
    except ChangeError as error:
        raise CliError(str(error)) from error
    left = {record.node.name for record in snapshot.nodes}
    gone = {record.node.name for record in base.nodes} - left
    return displaced(snapshot, gone)


def _wish(change: str) -> tuple[str, str | None]:
    tenant, equals, name = change.partition("=")
    if not equals or not tenant:
        raise CliError(f"--set-class {change}: write TENANT=CLASS, or TENANT= to take it off")
    return tenant, name or None


def _relabels(what_if: WhatIf) -> Iterator[tuple[str, dict[str, str | None]]]:
    """The labels that nodes are given, one at a time.

    Raises:
        CliError: one is not written as it should be, or a label is given twice.
    """
    given: set[tuple[str, str]] = set()
    for change in what_if.relabel:
        node, labels = _relabel(change)
        (key,) = labels
        if (node, key) in given:
            raise CliError(f"--relabel gives {node} the label {key} twice; give it once")
        given.add((node, key))
        yield node, labels


def _relabel(change: str) -> tuple[str, dict[str, str | None]]:
    node, colon, label = change.partition(":")
    key, equals, value = label.partition("=")
    if colon and equals and node and key:
        return node, {key: value}
    if colon and node and label.endswith("-") and len(label) > 1:
        return node, {label[:-1]: None}
    raise CliError(f"--relabel {change}: write NODE:KEY=VALUE, or NODE:KEY- to take it off")
