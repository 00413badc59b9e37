"""`schedclass explain`: find what is meant, explain it, show it."""

import sys
from typing import Final

from schedclass.cli.commands import no_namespace, print_document, tell_unknown
from schedclass.cli.options import Common, Output
from schedclass.cli.problems import CliError, NotThere
from schedclass.cli.screen import Screen, count
from schedclass.cli.source import load_world
from schedclass.domain import names
from schedclass.domain.insight.assembly import DEFAULT_NAMESPACE
from schedclass.domain.insight.explain_class import explain_class
from schedclass.domain.insight.explain_pod import PodExplanation, explain_pod
from schedclass.domain.insight.explanation import explain_namespace
from schedclass.domain.insight.snapshot import Part, PodRecord
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
EXPLAINED: Final = 3
"""How many pods of a workload are explained in full; the others are listed."""


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
        return _pods(common, world, [_pod(world, namespace, name)], "")
    found, title = _members(world, what, namespace, name)
    return _pods(common, world, found, title)


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
    if world.snapshot.knows(Part.PODS):
        return f"there is no {what}; -n names another namespace"
    return f"{what} cannot be seen: {world.snapshot.unknown[Part.PODS]}"


def _members(world: World, kind: str, namespace: str, name: str) -> tuple[list[PodRecord], str]:
    """The pods of a workload or application; of one without pods the first it would make."""
    if kind == "app":
        found = [r for r in world.pods_by_namespace.get(namespace, ()) if _is_of_app(r, name)]
        title = f"Application {namespace}/{name}"
    else:
        title = f"{kind} {namespace}/{name}"
        here = world.pods_by_namespace.get(namespace, ())
        owned = (kind, name)
        found = [
            r
            for r in here
            if world.group_of(r) == title or (r.owner and (r.owner.kind, r.owner.name) == owned)
        ]
        if not found:
            found = [w.template for w in world.snapshot.workloads if w.key == title]
    if not found:
        raise NotThere(_not_found(world, f"{title} with pods"))
    return found, title


def _is_of_app(record: PodRecord, name: str) -> bool:
    """Whether a pod belongs to an application by its lineage labels; `NAME` or `KIND/NAME`."""
    _, kind_key, name_key = names.LINEAGE_LABELS
    kind, _, plain = name.rpartition("/")
    labels = record.pod.labels
    of_kind = not kind or labels.get(kind_key, "").lower() == kind.lower()
    return labels.get(name_key) == plain and of_kind


def _pods(common: Common, world: World, records: list[PodRecord], title: str) -> int:
    """Explain pods: those that wait first, as they are what is asked about."""
    ordered = sorted(records, key=lambda r: (r.running, r.created, r.pod.name))
    if common.output is not Output.TABLE:
        told = [explain_pod(world, record) for record in ordered]
        kind = "WorkloadExplanation" if title else "PodExplanation"
        pods = [_body(common, record, one) for record, one in zip(ordered, told, strict=True)]
        body = {"workload": title, "pods": pods} if title else {"explanation": pods[0]}
        print_document(kind, world, common, body)
        return 0
    from schedclass.cli.show_explain import show_pod

    screen = Screen()
    if title:
        running = sum(record.running for record in ordered)
        head = f": {count(len(ordered), 'pod')}, {running} on a node"
        screen.line((title, "head"), head)
    for record in ordered[:EXPLAINED]:
        if title:
            screen.line()
        show_pod(screen, explain_pod(world, record), _events(common, record))
    for record in ordered[EXPLAINED:]:
        screen.line(f"{record.key}: {record.pod.node_name or 'no node'}")
    return 0


def _body(common: Common, record: PodRecord, told: PodExplanation) -> dict[str, object]:
    from schedclass.cli.documents import plain

    return {**plain(told), "events": _events(common, record)}


def _events(common: Common, record: PodRecord) -> list[str]:
    """What the cluster's Events say of a stored pod; a note where they cannot be read."""
    if common.offline or not record.stored:
        return []
    from schedclass.cli.gather import events_of

    found, problem = events_of(common, record)
    if problem:
        sys.stderr.write(f"note: events: {problem}\n")
    return found
