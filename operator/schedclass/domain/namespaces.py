"""The namespace as the operator sees it: identity, owners and our own keys, nothing else."""

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from schedclass.domain import names
from schedclass.domain.rawjson import mapping_or_empty

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def is_writable_class_name(value: str) -> bool:
    """Whether `value` can stand in the namespace label at all.

    A label value has at most 63 characters of `[-A-Za-z0-9_.]` and begins and ends with an
    alphanumeric one (Kubernetes, "Labels and Selectors"). An annotation can hold anything.
    """
    return _LABEL_VALUE.fullmatch(value) is not None


@dataclass(frozen=True, slots=True)
class Owner:
    """An ownerReference of kind Namespace."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Namespace:
    """What placement needs to know of a v1 Namespace.

    Attributes:
        name: its name.
        uid: its uid; empty when the object had none (a review of a malformed body).
        label: value of the class label; None when absent or empty.
        enforced: whether the enforced label is exactly "true".
        inherited_from: the ancestor named by our annotation; None when absent or empty.
        inherited_class: the value that was written into the label as inherited.
        inherited_from_uid: the uid of that ancestor when it was written.
        requested: the wish kept in our annotation; None when absent or empty.
        owners: ownerReferences of kind Namespace, in their order.
        deleting: whether it has a deletionTimestamp.
        resource_version: of the object read, for optimistic locking; not compared.
        labels: all labels, where they were asked for; no policy rests on them.
    """

    name: str
    uid: str = ""
    label: str | None = None
    enforced: bool = False
    inherited_from: str | None = None
    inherited_class: str | None = None
    inherited_from_uid: str | None = None
    requested: str | None = None
    owners: tuple[Owner, ...] = ()
    deleting: bool = False
    resource_version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)

    def same_policy(self, other: "Namespace | None") -> bool:
        """Whether `other` differs in nothing that can change a decision."""
        return other is not None and _policy(self) == _policy(other)


def _policy(ns: Namespace) -> tuple[object, ...]:
    return (
        ns.name,
        ns.uid,
        ns.label,
        ns.enforced,
        ns.inherited_from,
        ns.inherited_class,
        ns.inherited_from_uid,
        ns.requested,
        ns.owners,
        ns.deleting,
    )


def parse_namespace(obj: Mapping[str, Any], *, keep_labels: bool = False) -> Namespace:
    """Read a Namespace, whole or as PartialObjectMetadata.

    Args:
        obj: the JSON object; missing and null maps count as empty, values of a wrong type as
            absent, because a review can carry any body. A name yet to be generated is its beginning
            and a `?`: that says below whom the namespace will be, and no other is called so.
        keep_labels: keep all labels, as affinity terms with a namespaceSelector need them. Others
            are spared the memory and the news of every change.

    Returns:
        The record; never raises.
    """
    metadata = mapping_or_empty(obj.get("metadata"))
    labels = mapping_or_empty(metadata.get("labels"))
    annotations = mapping_or_empty(metadata.get("annotations"))
    return Namespace(
        name=_text(metadata.get("name")) or _to_be_generated(metadata),
        uid=_text(metadata.get("uid")) or "",
        label=_text(labels.get(names.CLASS_KEY)),
        enforced=labels.get(names.ENFORCED) == "true",
        inherited_from=_text(annotations.get(names.INHERITED_FROM)),
        inherited_class=_text(annotations.get(names.INHERITED_CLASS)),
        inherited_from_uid=_text(annotations.get(names.INHERITED_FROM_UID)),
        requested=_text(annotations.get(names.REQUESTED_CLASS)),
        owners=_namespace_owners(metadata.get("ownerReferences")),
        deleting=metadata.get("deletionTimestamp") is not None,
        resource_version=_text(metadata.get("resourceVersion")) or "",
        labels={str(key): str(value) for key, value in labels.items()} if keep_labels else {},
    )


def _to_be_generated(metadata: Mapping[str, Any]) -> str:
    beginning = _text(metadata.get("generateName"))
    return f"{beginning}?" if beginning else ""


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _namespace_owners(references: object) -> tuple[Owner, ...]:
    """Those of kind Namespace in whatever version: the uid tells whether it is one of ours."""
    if not isinstance(references, list):
        return ()
    return tuple(
        Owner(name=str(reference.get("name", "")), uid=str(reference.get("uid", "")))
        for reference in references
        if isinstance(reference, Mapping) and reference.get("kind") == "Namespace"
    )


class ExcludedNamespaces:
    """The namespaces that are never labelled and never pinned, whatever they carry."""

    def __init__(self, patterns: Iterable[str], own: str = "") -> None:
        """Take shell-style patterns (`kube-*`) and the operator's own namespace."""
        exact = [re.escape(own)] if own else []
        globs = [fnmatch.translate(pattern) for pattern in patterns]
        self._pattern = re.compile("|".join([*exact, *globs]) or r"(?!)")
        self._matches = lru_cache(maxsize=65536)(self._match)

    def __contains__(self, name: str) -> bool:
        """Whether the namespace of this name is excluded."""
        return self._matches(name)

    def _match(self, name: str) -> bool:
        return self._pattern.fullmatch(name) is not None
