"""A SchedulingClass as the operator sees it: its spec as models, or why it has none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from schedclass.domain.findings import Finding, Severity
from schedclass.domain.open_terms import OpenTerms, open_terms
from schedclass.domain.podfields import ClassSpec
from schedclass.domain.rawjson import mapping_or_empty
from schedclass.domain.validation import decode_spec


@dataclass(frozen=True, slots=True)
class SchedulingClass:
    """One SchedulingClass.

    Attributes:
        name: its name, which namespaces refer to.
        uid: tells a class from a later one of the same name.
        generation: moves when the spec changes.
        resource_version: opaque version of the whole object.
        spec: the constraints; None while the spec is invalid.
        findings: what validation has to say of the spec, errors first.
        deleting: whether deletion was asked for and waits for finalizers.
        labels: `metadata.labels`.
        finalizers: `metadata.finalizers`.
        status: the raw status, as it was last written.
        open_terms: what of the spec has no labelSelector; follows from it.
    """

    name: str
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    spec: ClassSpec | None = None
    findings: tuple[Finding, ...] = ()
    deleting: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    status: Mapping[str, Any] = field(default_factory=dict)
    open_terms: tuple[OpenTerms, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Looked for here and not for each pod: admission asks with every pod of the class.
        found = () if self.spec is None else open_terms(self.spec)
        object.__setattr__(self, "open_terms", found)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Why the spec is invalid; empty for a valid one."""
        return tuple(found for found in self.findings if found.severity is Severity.ERROR)

    @property
    def rules(self) -> tuple[object, ...]:
        """Equal while the class asks for the same; its status and labels change all the time."""
        return self.uid, self.spec, self.findings

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What is legal in the spec and still worth a word."""
        return tuple(found for found in self.findings if found.severity is not Severity.ERROR)


def parse_class(obj: Mapping[str, Any]) -> SchedulingClass:
    """Read a SchedulingClass object.

    Args:
        obj: JSON-like object as the API server, a manifest or a review has it.

    Returns:
        The class. An invalid spec gives `spec=None` and errors in `findings`; metadata that is
        absent or of the wrong type reads as empty. Never raises.
    """
    raw = mapping_or_empty(obj)
    metadata = mapping_or_empty(raw.get("metadata"))
    spec, findings = decode_spec(raw.get("spec"))
    generation = metadata.get("generation")
    finalizers = metadata.get("finalizers")
    return SchedulingClass(
        name=_string(metadata.get("name")),
        uid=_string(metadata.get("uid")),
        generation=generation if isinstance(generation, int) else 0,
        resource_version=_string(metadata.get("resourceVersion")),
        spec=spec,
        findings=findings,
        deleting=metadata.get("deletionTimestamp") is not None,
        labels={
            key: value
            for key, value in mapping_or_empty(metadata.get("labels")).items()
            if isinstance(key, str) and isinstance(value, str)
        },
        finalizers=tuple(
            name
            for name in (finalizers if isinstance(finalizers, list) else [])
            if isinstance(name, str)
        ),
        status=mapping_or_empty(raw.get("status")),
    )


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""
