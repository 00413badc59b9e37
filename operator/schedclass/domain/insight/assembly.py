"""From raw objects, in any order, to a snapshot."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from schedclass.domain import names
from schedclass.domain.findings import Finding, Reason, Severity
from schedclass.domain.insight.creation import (
    NEW_HASH,
    as_created,
    pod_of_template,
    template_hash,
    template_key,
)
from schedclass.domain.insight.given import object_findings, stray_keys
from schedclass.domain.insight.snapshot import (
    NEVER,
    Fault,
    NamespaceRecord,
    NodeRecord,
    Part,
    PodRecord,
    PriorityClass,
    Snapshot,
    Workload,
    controller_of,
    parse_node_record,
    parse_pod_record,
)
from schedclass.domain.namespaces import Namespace, parse_namespace
from schedclass.domain.rawjson import mapping_or_empty, mappings_in
from schedclass.domain.schedulingclass import SchedulingClass, parse_class
from schedclass.domain.tenants import Tenant, parse_tenant

DEFAULT_NAMESPACE: Final = "default"

_WORKLOADS: Final = {
    "Deployment": "apps",
    "StatefulSet": "apps",
    "ReplicaSet": "apps",
    "DaemonSet": "apps",
    "ReplicationController": "",
    "Job": "batch",
    "CronJob": "batch",
}
_ROLLED_OUT: Final = ("Deployment", "ReplicaSet")

_PARTS: Final = {
    "Node": Part.NODES,
    "Namespace": Part.NAMESPACES,
    "Tenant": Part.NAMESPACES,
    "Pod": Part.PODS,
}
"""What is not known whole without one of these; all other kinds are of workloads."""


class MalformedObject(ValueError):  # noqa: N818 - as KubeError's children, it names what happened
    """An object that cannot be read; the message says which field, and the way out."""


@dataclass(slots=True)
class Assembly:
    """Takes objects one by one and makes a snapshot of them.

    Attributes:
        namespace: for namespaced objects that name none.
        unused: kinds of objects that no answer needs, with their numbers.
        notes: sentences about objects that were taken otherwise than one might think.
        given: the parts of which there was at least one object.
        unread: how many objects of a part were left out, see `leave_out`.
    """

    namespace: str = DEFAULT_NAMESPACE
    unused: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    given: set[Part] = field(default_factory=set)
    unread: Counter[Part] = field(default_factory=Counter)
    _origins: dict[tuple[str, str, str], str] = field(default_factory=dict)
    _nodes: dict[str, NodeRecord] = field(default_factory=dict)
    _namespaces: dict[str, NamespaceRecord] = field(default_factory=dict)
    _tenants: dict[str, Tenant] = field(default_factory=dict)
    _classes: dict[str, SchedulingClass] = field(default_factory=dict)
    _pods: dict[str, PodRecord | Mapping[str, Any]] = field(default_factory=dict)
    _workloads: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _priorities: dict[str, PriorityClass] = field(default_factory=dict)
    _faults: dict[tuple[str, str, str], list[Finding]] = field(default_factory=dict)

    def add(self, obj: Mapping[str, Any], origin: str = "") -> None:
        """Take in one object (no list).

        Args:
            obj: the object; of a kind that is not used it is only counted.
            origin: where it comes from, for messages: file and line.

        Raises:
            MalformedObject: it has no name, or a field that matters cannot be read.
        """
        kind, group = str(obj.get("kind") or ""), _group(obj.get("apiVersion"))
        take = self._taker(kind, group)
        self._look_at(obj)
        if take is None:
            self.unused[kind or "(no kind)"] += 1
            return
        metadata = obj.get("metadata")
        if not isinstance(metadata, Mapping):
            raise MalformedObject(f"{kind}: metadata must be an object with a name")
        name = metadata.get("name") or metadata.get("generateName")
        if not isinstance(name, str) or not name:
            raise MalformedObject(f"{kind}: metadata.name is missing or is no text")
        namespaced = kind == "Pod" or kind in _WORKLOADS or kind == "Tenant"
        place = str(metadata.get("namespace") or self.namespace) if namespaced else ""
        if place or not metadata.get("name"):
            obj = {**obj, "metadata": {**metadata, "name": name}}
            if place:
                obj["metadata"]["namespace"] = place
        self._note_duplicate(kind, place, name, origin)
        try:
            take(obj, f"{place}/{name}" if place else name)
        except (ValueError, TypeError, AttributeError) as error:
            at = f"{place}/{name}" if place else name
            raise MalformedObject(f"{kind} {at}: {_why(error)}") from error

    def leave_out(self, obj: Mapping[str, Any], why: str) -> None:
        """Go on without an object that cannot be read; its part of the snapshot is then unknown.

        Args:
            obj: the object.
            why: the sentence, with its place.
        """
        self.fault(obj, Finding(Reason.INVALID_OBJECT, why, Severity.ERROR))
        self.unread[_PARTS.get(str(obj.get("kind")), Part.WORKLOADS)] += 1

    def fault(self, obj: Mapping[str, Any], finding: Finding) -> None:
        """Keep what is wrong with an object, until an object of its name is added once more."""
        self._faults.setdefault(_key(obj), []).append(finding)

    def _look_at(self, obj: Mapping[str, Any]) -> None:
        self._faults.pop(_key(obj), None)
        for finding in object_findings(obj):
            self.fault(obj, finding)

    def forget(self, kind: str) -> None:
        """Take back all objects of a kind, to read them once more."""
        held: dict[str, dict[str, Any]] = {
            "Node": self._nodes,
            "Namespace": self._namespaces,
            "Tenant": self._tenants,
            names.KIND: self._classes,
            "Pod": self._pods,
        }
        if kind in held:
            held[kind].clear()
        else:
            stale = [key for key in self._workloads if key.startswith(f"{kind} ")]
            for key in stale:
                del self._workloads[key]
        self._origins = {key: at for key, at in self._origins.items() if key[0] != kind}

    def finish(
        self, unknown: Mapping[Part, str], origin: str, *, tolerant: bool = False
    ) -> Snapshot:
        """The snapshot of all that was taken in.

        Args:
            unknown: see `Snapshot.unknown`.
            origin: see `Snapshot.origin`.
            tolerant: leave out what cannot be read, see `leave_out`.

        Raises:
            MalformedObject: pods or pod templates cannot be read; one line each.
        """
        problems: list[str] = []
        pods: list[PodRecord] = []
        workloads: list[Workload] = []
        for key, pod in self._pods.items():
            if isinstance(pod, PodRecord):
                pods.append(pod)
                continue
            with self._reading(pod, problems, tolerant=tolerant):
                pods.append(self._pod(pod, key))
        for raw in self._workloads.values():
            with self._reading(raw, problems, tolerant=tolerant):
                workloads.append(self._workload(raw))
        if problems:
            raise MalformedObject("\n".join(problems))
        left_out = {
            part: f"{number} object{'' if number == 1 else 's'} cannot be read"
            for part, number in self.unread.items()
        }
        return Snapshot(
            nodes=tuple(self._nodes[name] for name in sorted(self._nodes)),
            namespaces=(*self._namespaces.values(), *self._implied(pods, workloads)),
            tenants=tuple(self._tenants.values()),
            classes=tuple(self._classes[name] for name in sorted(self._classes)),
            pods=tuple(pods),
            workloads=tuple(workloads),
            unknown={**left_out, **unknown},
            origin=origin,
            faults=tuple(
                Fault(*key, finding) for key, found in self._faults.items() for finding in found
            ),
            priorities=dict(self._priorities),
        )

    @contextmanager
    def _reading(
        self, raw: Mapping[str, Any], problems: list[str], *, tolerant: bool
    ) -> Iterator[None]:
        """Say where an object stands that cannot be read; its place was seen when it was added."""
        try:
            yield
        except MalformedObject as error:
            metadata = raw["metadata"]
            at = self._origins.get((raw["kind"], metadata["namespace"], metadata["name"]))
            told = f"{at}: {error}" if at else str(error)
            if tolerant:
                self.leave_out(raw, told)
            else:
                problems.append(told)

    def _taker(self, kind: str, group: str) -> Callable[[Mapping[str, Any], str], None] | None:
        if kind in _WORKLOADS:
            return self._take_workload if group == _WORKLOADS[kind] else None
        takers: dict[tuple[str, str], Callable[[Mapping[str, Any], str], None]] = {
            ("", "Node"): self._take_node,
            ("", "Namespace"): self._take_namespace,
            ("", "Pod"): self._take_pod,
            (names.GROUP, names.KIND): self._take_class,
            (_group(names.TENANT_API_VERSION), "Tenant"): self._take_tenant,
            ("scheduling.k8s.io", "PriorityClass"): self._take_priority,
        }
        return takers.get((group, kind))

    def _note_duplicate(self, kind: str, place: str, name: str, origin: str) -> None:
        key = (kind, place, name)
        if key in self._origins:
            before = self._origins[key]
            where = f" ({before}, {origin})" if origin else ""
            if origin == before:
                where = f" ({origin}, read twice)" if origin else ""
            at = f"{place}/{name}" if place else name
            self.notes.append(f"{kind} {at} is given more than once{where}; the last one counts")
        self._origins[key] = origin

    def _take_node(self, obj: Mapping[str, Any], key: str) -> None:
        self.given.add(Part.NODES)
        self._nodes[key] = parse_node_record(obj)

    def _take_namespace(self, obj: Mapping[str, Any], key: str) -> None:
        self.given.add(Part.NAMESPACES)
        labels = obj["metadata"].get("labels") or {}
        if not isinstance(labels, Mapping):
            raise MalformedObject("metadata.labels: must be a map of strings")
        texts = {str(label): str(value) for label, value in labels.items()}
        texts.setdefault(names.NAMESPACE_NAME, key)  # the API server sees to it
        stray = tuple(stray_keys(obj["metadata"]))
        self._namespaces[key] = NamespaceRecord(parse_namespace(obj), texts, stray=stray)

    def _take_class(self, obj: Mapping[str, Any], key: str) -> None:
        self.given.add(Part.CLASSES)
        self._classes[key] = parse_class(obj)

    def _take_tenant(self, obj: Mapping[str, Any], key: str) -> None:
        self.given.add(Part.TENANTS)
        self._tenants[key] = parse_tenant(obj)

    def _take_priority(self, obj: Mapping[str, Any], key: str) -> None:
        value = obj.get("value")
        if not isinstance(value, int):
            raise MalformedObject("value: must be a whole number")
        found = PriorityClass(value, preempts=obj.get("preemptionPolicy") != NEVER)
        self._priorities[key] = found
        if obj.get("globalDefault") is True:
            self._priorities[""] = found

    def _take_pod(self, obj: Mapping[str, Any], key: str) -> None:
        self.given.add(Part.PODS)
        stored = bool(obj["metadata"].get("uid"))
        # One that is not stored may need a PriorityClass that is still to come.
        self._pods[key] = parse_pod_record(obj) if stored else obj

    def _take_workload(self, obj: Mapping[str, Any], key: str) -> None:
        self.given.add(Part.WORKLOADS)
        self._workloads[f"{obj['kind']} {key}"] = obj

    def _pod(self, raw: Mapping[str, Any], key: str) -> PodRecord:
        try:
            return parse_pod_record(as_created(raw, self._priorities))
        except (ValueError, TypeError, AttributeError) as error:
            raise MalformedObject(f"Pod {key}: {_why(error)}") from error

    def _workload(self, raw: Mapping[str, Any]) -> Workload:
        metadata = raw["metadata"]
        key = f"{raw['kind']} {metadata['namespace']}/{metadata['name']}"
        try:
            return self._read_workload(raw)
        except (ValueError, TypeError, AttributeError) as error:
            raise MalformedObject(f"{key}: {_why(error)}") from error

    def _read_workload(self, raw: Mapping[str, Any]) -> Workload:
        kind, metadata, spec = raw["kind"], raw["metadata"], raw.get("spec") or {}
        if kind == "CronJob":
            spec = (spec.get("jobTemplate") or {}).get("spec") or {}
        template = spec.get("template")
        if not isinstance(template, Mapping) or not isinstance(template.get("spec"), Mapping):
            raise MalformedObject("its pod template has no spec")
        owner = {"kind": kind, "name": metadata["name"], "uid": metadata.get("uid") or ""}
        priorities = self._priorities

        def make(pod_hash: str) -> PodRecord:
            pod = pod_of_template(raw, template, metadata["name"], owner, pod_hash)
            return parse_pod_record(as_created(pod, priorities))

        try:
            record = make(NEW_HASH)
        except (ValueError, TypeError, AttributeError) as error:
            job = "jobTemplate.spec." if kind == "CronJob" else ""
            raise MalformedObject(f"spec.{job}template.{_why(error)}") from error
        return Workload(
            kind=kind,
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=str(metadata.get("uid") or ""),
            replicas=0 if _is_over(raw) else _replicas(kind, spec),
            template=record,
            owner=controller_of(metadata),
            template_key=template_key(template) if kind in _ROLLED_OUT else "",
            template_hash=template_hash(template),
            make=make if kind == "Deployment" else None,
        )

    def _implied(self, pods: list[PodRecord], workloads: list[Workload]) -> list[NamespaceRecord]:
        """Namespaces that nobody gave, and that Tenants, pods and workloads need."""
        wanted = [tenant.target for tenant in self._tenants.values()]
        wanted += [tenant.namespace for tenant in self._tenants.values()]
        wanted += [record.pod.namespace for record in pods]
        wanted += [workload.namespace for workload in workloads]
        missing = [name for name in dict.fromkeys(wanted) if name not in self._namespaces]
        return [
            NamespaceRecord(Namespace(name), {names.NAMESPACE_NAME: name}, implied=True)
            for name in missing
        ]


def _why(error: Exception) -> str:
    """What a reader says. It trusts the shape of maps and lists, so it may stumble over another."""
    if isinstance(error, ValueError):
        return str(error)
    return f"a field is of another type than the API has it ({error})"


def _is_over(raw: Mapping[str, Any]) -> bool:
    """Whether a Job makes no pods any more, or none for now."""
    if raw["kind"] != "Job":
        return False
    spec, status = mapping_or_empty(raw.get("spec")), mapping_or_empty(raw.get("status"))
    ended = any(
        condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True"
        for condition in mappings_in(status.get("conditions"))
    )
    return ended or spec.get("suspend") is True


def _replicas(kind: str, spec: Mapping[str, Any]) -> int | None:
    if kind == "DaemonSet":
        return None
    field_name = "parallelism" if kind in ("Job", "CronJob") else "replicas"
    value = spec.get(field_name)
    if value is None:
        return 1
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise MalformedObject(f"spec.{field_name}: must be a whole number of pods")
    completions = spec.get("completions")
    return min(value, completions) if isinstance(completions, int) else value


def _key(obj: Mapping[str, Any]) -> tuple[str, str, str]:
    """Kind, name and namespace of an object as it calls itself."""
    metadata = obj.get("metadata")
    named = metadata if isinstance(metadata, Mapping) else {}
    name, namespace = named.get("name"), named.get("namespace")
    return str(obj.get("kind") or ""), str(name or ""), str(namespace or "")


def _group(api_version: object) -> str:
    text = api_version if isinstance(api_version, str) else ""
    return text.rpartition("/")[0]
