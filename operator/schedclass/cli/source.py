"""Where a snapshot comes from: manifests, a cluster, or manifests laid over a cluster."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from schedclass.cli import fields, manifests
from schedclass.cli.options import Common
from schedclass.cli.problems import CliError, InputError
from schedclass.cli.progress import Progress
from schedclass.cli.screen import tell
from schedclass.domain import names
from schedclass.domain.findings import Finding, Reason
from schedclass.domain.insight.assembly import DEFAULT_NAMESPACE, Assembly, MalformedObject
from schedclass.domain.insight.snapshot import Part, Snapshot
from schedclass.domain.insight.world import Policy, World
from schedclass.domain.label_syntax import why_not_dns_label
from schedclass.domain.namespaces import ExcludedNamespaces
from schedclass.domain.schedulingclass import SchedulingClass

DECIDING = (names.KIND, "Namespace")
"""Kinds of which a field that does not count changes who is pinned where."""

PROBLEMS_SHOWN = 20
NOTES_SHOWN = 50


@dataclass(slots=True)
class Notes:
    """Sentences for a person, to standard error, each once and not without end."""

    told: set[str] = field(default_factory=set)
    silenced: int = 0

    def say(self, message: str) -> None:
        """Tell one."""
        if message in self.told:
            return
        if len(self.told) >= NOTES_SHOWN:
            self.silenced += 1
            return
        self.told.add(message)
        tell("note", message)

    def close(self) -> None:
        """Tell how many were not told."""
        if self.silenced:
            tell("note", f"{self.silenced} more notes of this kind")
            self.silenced = 0


def policy_of(common: Common, snapshot: Snapshot) -> Policy:
    """The operator's configuration as the options and the cluster give it.

    The operator excludes its own namespace by itself, and the chart those the cluster lives on.

    Raises:
        CliError: an option is not what it should be; one sentence.
    """
    patterns = _listed(common.excluded_namespaces) or names.SYSTEM_NAMESPACES
    own = common.operator_namespace
    if own and (why := why_not_dns_label(own)):
        raise CliError(f"--operator-namespace {own} {why}; name the namespace of the operator")
    own = own or snapshot.operator_namespace or names.INSTALL_NAMESPACE
    known = ExcludedNamespaces(patterns)
    besides = dict.fromkeys((*names.CLUSTER_NAMESPACES, own))
    keys = common.label_keys
    return Policy(
        excluded=(*patterns, *(name for name in besides if name not in known)),
        label_keys=names.LINEAGE_LABELS if keys is None else _listed(keys),
        exempt_daemon_sets=common.exempt_daemon_sets,
    )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def load_world(common: Common, parts: Collection[Part], *, tolerant: bool = False) -> World:
    """Gather what is needed and link it.

    Args:
        common: the options.
        parts: what the command needs of a cluster; of manifests everything is read.
        tolerant: of manifests that cannot be read make findings, and go on without them; what
            becomes a finding is not told as a note as well.

    Raises:
        CliError: nothing can be gathered; one sentence.
    """
    snapshot = load_snapshot(common, parts, tolerant=tolerant)
    return World(snapshot, policy_of(common, snapshot))


def load_snapshot(
    common: Common,
    parts: Collection[Part],
    *,
    besides: Snapshot | None = None,
    tolerant: bool = False,
) -> Snapshot:
    """See `load_world`.

    Args:
        common: the options.
        parts: what the command needs of a cluster.
        besides: what will be laid over it later, of which the same holds as of manifests here: a
            workload that runs already wants only those of its pods that are not there.
        tolerant: see `load_world`.
    """
    if common.offline:
        return snapshot_of_manifests(common.files, common, tolerant=tolerant)
    from schedclass.cli.gather import connection, gather_snapshot
    from schedclass.domain.insight.changes import of_workloads, overlay

    given = Snapshot()
    if common.files:
        own = replace(common, namespace=connection(common).namespace)
        given = snapshot_of_manifests(common.files, own, tolerant=tolerant)
    wanted = (*given.workloads, *(besides.workloads if besides is not None else ()))
    live = gather_snapshot(common, {*parts, Part.WORKLOADS} if wanted else parts)
    if Part.WORKLOADS not in parts:
        live = replace(live, workloads=of_workloads(live.workloads, wanted))
    return overlay(live, given) if common.files else live


def snapshot_of_manifests(
    paths: tuple[str, ...], common: Common, *, tolerant: bool = False
) -> Snapshot:
    """Read manifests; what they do not hold is unknown, as a cluster may hold it.

    Raises:
        InputError: something cannot be read; the first of them, each with its place.
    """
    notes = Notes()
    assembly = Assembly(namespace=common.namespace or DEFAULT_NAMESPACE)
    problems: list[str] = []
    with Progress("reading") as progress:
        progress.begin("objects")
        for manifest in manifests.read_all(paths, recursive=common.recursive, say=notes.say):
            progress.advance(1)
            unknown = list(fields.unknown_fields(manifest.obj))
            deciding = manifest.obj.get("kind") in DECIDING
            for sentence in () if tolerant and deciding else unknown:
                notes.say(f"{manifest.origin}: {sentence}")
            try:
                assembly.add(manifest.obj, manifest.origin)
                if deciding:
                    for sentence in unknown:
                        assembly.fault(manifest.obj, Finding(Reason.UNSUPPORTED_FIELD, sentence))
            except MalformedObject as error:
                told = f"{manifest.origin}: {error}"
                if tolerant and _is_named(manifest.obj):
                    assembly.leave_out(manifest.obj, told)
                else:
                    problems.append(told)
    origin = f"manifests: {', '.join(paths)}"
    # Always tolerant: what is left out says why in one sentence each, whatever stands in a name.
    snapshot = assembly.finish(_not_given(assembly), origin, tolerant=True)
    if assembly.unread and not tolerant:
        problems += _left_out(snapshot)
    if problems:
        raise InputError(*_first(problems))
    _tell(notes, assembly, () if tolerant else snapshot.classes)
    return snapshot


def _left_out(snapshot: Snapshot) -> list[str]:
    """Why objects were left out; a finding about a field is about an object that was read."""
    findings = (fault.finding for fault in snapshot.faults)
    return [
        found.message
        for found in findings
        if found.reason is Reason.INVALID_OBJECT and not found.path
    ]


def _is_named(obj: Mapping[str, Any]) -> bool:
    """Whether a finding can say which object it is about."""
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return isinstance(name, str) and bool(name)


def _tell(notes: Notes, assembly: Assembly, classes: Iterable[SchedulingClass]) -> None:
    """Say what was given and does not count."""
    for note in assembly.notes:
        notes.say(note)
    for cls in classes:
        for finding in cls.warnings:
            if finding.reason is Reason.UNSUPPORTED_FIELD:  # `explain class` tells the others
                notes.say(f"SchedulingClass {cls.name}: {finding}")
    if assembly.unused:
        listed = ", ".join(f"{kind} ({n})" for kind, n in sorted(assembly.unused.items()))
        notes.say(f"of no use here: {listed}")
    notes.close()


def _not_given(assembly: Assembly) -> dict[Part, str]:
    # A tenant's namespace follows from its Tenant, and where no Tenant is given none may be used.
    given = assembly.given | {Part.TENANTS}
    if assembly.given & {Part.NAMESPACES, Part.TENANTS}:
        given |= {Part.NAMESPACES}
    if assembly.given & {Part.PODS, Part.WORKLOADS}:
        given |= {Part.PODS, Part.WORKLOADS}
    return {part: f"no {part.value} among the manifests" for part in Part if part not in given}


def _first(problems: list[str]) -> list[str]:
    shown = problems[:PROBLEMS_SHOWN]
    more = len(problems) - len(shown)
    return [*shown, *([f"... and {more} more"] if more else [])]
