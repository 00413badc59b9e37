"""`schedclass explain`: find what is meant, explain it, show it."""

from collections.abc import Sequence
from typing import Final

from schedclass.cli.commands import no_class, no_namespace, print_document, tell_unknown
from schedclass.cli.options import Common, Output
from schedclass.cli.problems import FAILED, CliError, NotThere
from schedclass.cli.screen import Screen, tell
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
_GROUPS: Final = {
    **dict.fromkeys(("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet"), "apps"),
    "Job": "batch",
    "SchedulingClass": names.GROUP,
}
"""API groups of the kinds that have one, as kubectl writes them behind the kind."""


COMPARED: Final = 20
"""How many pods of a workload are compared, to say once what they share; the others are listed."""


def explain(common: Common, kind: str, named: Sequence[str]) -> int:
    """`schedclass explain KIND NAME...`, or KIND/NAME... as kubectl prints it.

    Raises:
        CliError: no such kind, no name, or nothing can be gathered; one sentence.
    """
    asked = wanted(kind, named)
    if common.all_namespaces:
        raise CliError("explain takes no -A: the name is looked for in one namespace, that of -n")
    if len(asked) > 1 and common.output is not Output.TABLE:
        raise CliError(f"-o {common.output.value} explains one object at a time")
    kinds = {what for what, _ in asked}
    parts = set(Part)
    if kinds <= {"Namespace", "SchedulingClass", "Pod"}:
        parts -= {Part.WORKLOADS}
    if kinds == {"Namespace"}:
        parts -= {Part.PODS}
    world = load_world(common, parts)
    if common.output is Output.TABLE:
        tell_unknown(world)
    code = 0
    for number, (what, name) in enumerate(asked):
        if number:
            Screen().line()
        try:
            _one(common, world, what, name)
        except NotThere as error:
            if len(asked) == 1:
                raise
            tell("error", *error.args)
            code = FAILED
    return code


def wanted(kind: str, named: Sequence[str]) -> list[tuple[str, str]]:
    """Kind and name of all that is asked about.

    Args:
        kind: a kind, or a kind and a name joined by a slash.
        named: names; after a KIND/NAME more of these.

    Raises:
        CliError: see `explain`.
    """
    if "/" not in kind:
        what = _kind(kind)
        if not named:
            raise CliError(f"explain {kind}: which one? Write {kind} NAME or {kind}/NAME")
        own = {name: name.partition("/") for name in named}
        # `explain pod pod/web-0` says the same twice; the name of an application may have a slash.
        return [
            (what, rest if slash and what != "app" and _ALIASES.get(_bare(head)) == what else name)
            for name, (head, slash, rest) in own.items()
        ]
    pairs = [one.partition("/") for one in (kind, *named)]
    for head, slash, name in pairs:
        if not (slash and name):
            raise CliError(f"{head}{slash}: write KIND/NAME, for each of several too")
    return [(_kind(head), name) for head, _, name in pairs]


def _kind(text: str) -> str:
    """The kind, of `deploy`, `deployments.apps` and `deployment.v1.apps` alike."""
    what = _ALIASES.get(_bare(text))
    group = text.lower().partition(".")[2]
    known = _GROUPS.get(what or "", "")
    if what is None or (group and known not in (group, group.partition(".")[2])):
        kinds = "pod, namespace, class, deployment, statefulset, replicaset, daemonset, job, app"
        raise CliError(f"cannot explain a {text}; it can be one of {kinds}")
    return what


def _bare(kind: str) -> str:
    return kind.lower().partition(".")[0]


def _one(common: Common, world: World, what: str, name: str) -> None:
    if what == "Namespace":
        _namespace(common, world, name)
    elif what == "SchedulingClass":
        _class(common, world, name)
    elif what == "Pod":
        _one_pod(common, world, _pod(world, _namespace_of(common), name))
    else:
        _workload(common, world, what, _namespace_of(common), name)


def _namespace_of(common: Common) -> str:
    if common.namespace:
        return common.namespace
    if common.offline:
        return DEFAULT_NAMESPACE
    from schedclass.cli.gather import connection

    return connection(common).namespace


def _namespace(common: Common, world: World, name: str) -> None:
    if world.tree.get(name) is None:
        raise NotThere(no_namespace(world, name))
    told = explain_namespace(world, name)
    if common.output is not Output.TABLE:
        print_document("NamespaceExplanation", world, common, {"explanation": told})
        return
    from schedclass.cli.show_explain import show_namespace

    show_namespace(Screen(), told)


def _class(common: Common, world: World, name: str) -> None:
    told = explain_class(world, name)
    if told.usage.health is Health.MISSING and not (told.usage.uses or told.usage.overridden):
        raise NotThere(no_class(world, name))
    if common.output is not Output.TABLE:
        print_document("ClassExplanation", world, common, {"explanation": told})
        return
    from schedclass.cli.show_explain import show_class

    show_class(Screen(), told, whole=world.snapshot.knows(Part.NAMESPACES))


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


def _one_pod(common: Common, world: World, record: PodRecord) -> None:
    told, events = explain_pod(world, record), _events(common, record)
    if common.output is not Output.TABLE:
        print_document("PodExplanation", world, common, {"explanation": _body(told, events)})
        return
    from schedclass.cli.show_explain import show_pod

    show_pod(Screen(), told, events)


def _workload(common: Common, world: World, kind: str, namespace: str, name: str) -> None:
    """Explain pods of one workload: those that wait first, as they are what is asked about."""
    records, makers, title = _members(world, kind, namespace, name)
    ordered = sorted(records, key=lambda r: (r.running, r.created, r.pod.name))
    first = COMPARED if common.output is Output.TABLE else None
    told = explain_workload(world, ordered, makers, first=first)
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
        return
    from schedclass.cli.show_workload import show_workload

    show_workload(Screen(), title, ordered, told, makers_say, lambda r: _events(common, r))


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
        tell("note", f"events: {problem}")
