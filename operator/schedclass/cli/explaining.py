"""`schedclass explain`: find what is meant, explain it, show it."""

import sys
from typing import Final

from schedclass.cli.commands import no_namespace, print_document, tell_unknown
from schedclass.cli.options import Common, Output
from schedclass.cli.problems import CliError, NotThere
from schedclass.cli.screen import Screen
from schedclass.cli.source import load_world
from schedclass.domain import names
from schedclass.domain.insight.assembly import DEFAULT_NAMESPACE
from schedclass.domain.insight.explain_class import explain_class
from schedclass.domain.insight.explain_pod import PodExplanation, explain_pod
from schedclass.domain.insight.explain_workload import (
    WorkloadExplanation,
    explain_workload,
    pods_of,
)
from schedclass.domain.insight.explanation import explain_namespace
from schedclass.domain.insight.snapshot import Owner, Part, PodRecord, Workload
from schedclass.domain.insight.world import Health, World

_ALIASES: Final = {
    **dict.fromkeys(("pod", "pods", "po"), "Pod"),
    **dict.fromkeys(("namespace", "namespaces", "ns", "tenant"), "Namespace"),
    **dict.fromkeys(("class", "classes", "sclass", "schedulingclass"), "SchedulingClass"),
    **dict.fromkeys(("deployment", "deployments", "deploy"), "Deployment"),
    **dict.fromkeys(("statefulset", "statefulsets", "sts"), "StatefulSet"),
    **dict.fromkeys(("replicaset", "replicasets", "rs"), "ReplicaSet"),
    **dict.fromkeys(("daemonset", "daemonsets", "ds"), "DaemonSet"),
    **dict.fromkeys(("job", "jobs"), "Job"),
    **dict.fromkeys(("app", "application"), "app"),
}


def explain(common: Common, kind: str, name: str) -> int:
    """`schedclass explain KIND NAME`."""
    what = _ALIASES.get(kind.lower())
    if what is None:
        known = "pod, namespace, class, deployment, statefulset, replicaset, daemonset, job, app"
        raise CliError(f"cannot explain a {kind}; it can be one of {known}")
    parts = set(Part) - {Part.EVENTS}
    if what in ("Namespace", "SchedulingClass", "Pod"):
        parts -= {Part.WORKLOADS}
    if what == "Namespace":
        parts -= {Part.PODS}
    world = load_world(common, parts)
    if common.output is Output.TABLE:
        tell_unknown(world)
    if what == "Namespace":
        return _namespace(common, world, name)
    if what == "SchedulingClass":
        return _class(common, world, name)
    namespace = _namespace_of(common)
    if what == "Pod":
        return _one_pod(common, world, _pod(world, namespace, name))
    return _workload(common, world, what, namespace, name)


def _namespace_of(common: Common) -> str:
    if common.namespace:
        return common.namespace
    if common.offline:
        return DEFAULT_NAMESPACE
    from schedclass.cli.gather import connection

    return connection(common).namespace


def _namespace(common: Common, world: World, name: str) -> int:
    if world.tree.get(name) is None:
        raise NotThere(no_namespace(world, name))
    told = explain_namespace(world, name)
    if common.output is not Output.TABLE:
        print_document("NamespaceExplanation", world, common, {"explanation": told})
        return 0
    from schedclass.cli.show_explain import show_namespace

    show_namespace(Screen(), told)
    return 0


def _class(common: Common, world: World, name: str) -> int:
    told = explain_class(world, name)
    if told.usage.health is Health.MISSING and not (told.usage.uses or told.usage.overridden):
        raise NotThere(f"there is no SchedulingClass {name}, and nobody asks for it")
    if common.output is not Output.TABLE:
        print_document("ClassExplanation", world, common, {"explanation": told})
        return 0
    from schedclass.cli.show_explain import show_class

    show_class(Screen(), told, whole=world.snapshot.knows(Part.NAMESPACES))
    return 0


def _pod(world: World, namespace: str, name: str) -> PodRecord:
    for record in world.snapshot.pods:
        if (record.pod.namespace, record.pod.name) == (namespace, name):
            return record
    raise NotThere(_not_found(world, f"pod {namespace}/{name}"))


def _not_found(world: World, what: str) -> str:
    for part in (Part.PODS,) if what.startswith("pod ") else (Part.WORKLOADS, Part.PODS):
        if not world.snapshot.knows(part):
            return f"{what} cannot be seen: {part.value}: {world.snapshot.unknown[part]}"
    return f"there is no {what}; use -n for another namespace"


def _members(
    world: World, kind: str, namespace: str, name: str
) -> tuple[list[PodRecord], list[Workload], str]:
    """The pods of a workload or application, what makes them, and how it is called."""
    if kind == "app":
        title = f"Application {namespace}/{name}"
        here = world.pods_by_namespace.get(namespace, ())
        found = [record for record in here if _is_of_app(record, name)]
        makers = [
            workload
            for workload in world.snapshot.workloads
            if workload.namespace == namespace and _is_of_app(workload.template, name)
        ]
        keys = {workload.key for workload in makers}
        # A ReplicaSet of a Deployment wants the very pods that the Deployment wants.
        makers = [w for w in makers if not (w.owner and _owner_key(w, w.owner) in keys)]
    else:
        title = f"{kind} {namespace}/{name}"
        found = pods_of(world, title)
        makers = [workload for workload in world.snapshot.workloads if workload.key == title]
    if not (found or makers):
        raise NotThere(_not_found(world, title if kind != "app" else f"{title} with pods"))
    return found, makers, title


def _owner_key(workload: Workload, owner: Owner) -> str:
    return f"{owner.kind} {workload.namespace}/{owner.name}"


def _is_of_app(record: PodRecord, name: str) -> bool:
    """Whether a pod belongs to an application by its lineage labels; `NAME` or `KIND/NAME`."""
    _, kind_key, name_key = names.LINEAGE_LABELS
    kind, _, plain = name.rpartition("/")
    labels = record.pod.labels
    of_kind = not kind or labels.get(kind_key, "").lower() == kind.lower()
    return labels.get(name_key) == plain and of_kind


def _one_pod(common: Common, world: World, record: PodRecord) -> int:
    told, events = explain_pod(world, record), _events(common, record)
    if common.output is not Output.TABLE:
        print_document("PodExplanation", world, common, {"explanation": _body(told, events)})
        return 0
    from schedclass.cli.show_explain import show_pod

    show_pod(Screen(), told, events)
    return 0


def _workload(common: Common, world: World, kind: str, namespace: str, name: str) -> int:
    """Explain pods of one workload: those that wait first, as they are what is asked about."""
    records, makers, title = _members(world, kind, namespace, name)
    ordered = sorted(records, key=lambda r: (r.running, r.created, r.pod.name))
    told = explain_workload(world, ordered, makers)
    makers_say = _makers_say(common, world, told, makers)
    if common.output is not Output.TABLE:
        events = [_events(common, record) for record in ordered]
        body = {
            "workload": title,
            "existing": told.existing,
            **({} if told.wanted is None else {"wanted": told.wanted}),
            "controllerSays": makers_say,
            "pods": [_body(one, said) for one, said in zip(told.pods, events, strict=True)],
            "missing": told.missing,
        }
        print_document("WorkloadExplanation", world, common, body)
        return 0
    from schedclass.cli.show_workload import show_workload

    show_workload(Screen(), title, ordered, told, makers_say, lambda r: _events(common, r))
    return 0


def _makers_say(
    common: Common, world: World, told: WorkloadExplanation, makers: list[Workload]
) -> list[str]:
    """What the controllers say about pods that they could not create."""
    missing = {found.workload for found in told.missing if found.count}
    asked = [workload for workload in makers if workload.key in missing]
    keys = {workload.key for workload in asked}
    asked += [
        workload
        for workload in world.snapshot.workloads
        if workload.owner and _owner_key(workload, workload.owner) in keys and workload.replicas
    ]
    if common.offline:
        return []
    from schedclass.cli.gather import refused_creations

    found: list[str] = []
    for workload in asked:
        if workload.uid:
            said, problem = refused_creations(common, workload)
            _note_events(problem)
            found += said
    return found


def _body(told: PodExplanation, events: list[str]) -> dict[str, object]:
    from schedclass.cli.documents import plain

    return {**plain(told), "events": events}


def _events(common: Common, record: PodRecord) -> list[str]:
    """What the cluster's Events say of a stored pod; a note where they cannot be read."""
    if common.offline or not record.stored:
        return []
    from schedclass.cli.gather import events_of

    found, problem = events_of(common, record)
    _note_events(problem)
    return found


def _note_events(problem: str) -> None:
    if problem:
        sys.stderr.write(f"note: events: {problem}\n")
