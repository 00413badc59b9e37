"""Admission of namespaces: what is stamped onto one under review, and what its writer is told."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jsonpatch

from schedclass.domain.admission import Decision, Outcome, class_not_found, unchanged
from schedclass.domain.findings import Finding, Reason, Severity
from schedclass.domain.inheritance import (
    NamespaceKeys,
    desired_keys,
    effective_class,
    findings,
    merge_patch,
    undone_finding,
)
from schedclass.domain.namespaces import Namespace, parse_namespace
from schedclass.domain.tree import NamespaceTree


def decide_namespace(
    tree: NamespaceTree,
    obj: Mapping[str, Any],
    *,
    class_exists: bool | None,
    old: Mapping[str, Any] | None = None,
) -> Decision:
    """Stamp the effective class on a namespace that is created or updated.

    Args:
        tree: the known namespaces; the one under review need not be among them.
        obj: the new object.
        class_exists: whether the effective class exists; None when that is not known.
        old: the stored object of an update; None for a creation.
    """
    ns = parse_namespace(obj)
    if ns.deleting:
        return unchanged(Reason.NOT_MUTABLE, "the namespace is being deleted")
    effective = effective_class(tree, ns)
    warnings = findings(tree, ns, effective)
    if ns.name in tree.excluded:
        finding = Finding(
            Reason.NAMESPACE_EXCLUDED, "the namespace is excluded from classes", Severity.NORMAL
        )
        return Decision(Outcome.UNCHANGED, finding, warnings=warnings)
    if effective.class_name is not None and class_exists is False:
        warnings += (class_not_found(effective, ns.name),)
    before = None if old is None else parse_namespace(old)
    undone = undone_finding(tree, before, ns, effective)
    if undone is not None and undone not in warnings:
        warnings += (undone,)
    desired = desired_keys(ns, effective, class_exists=class_exists)
    if before is not None:
        desired = _in_a_users_name(before, ns, desired, effective.own_request)
    changes = merge_patch(NamespaceKeys.of(ns), desired)
    if not changes:
        finding = Finding(Reason.ALREADY_RIGHT, "nothing to change", Severity.NORMAL)
        return Decision(Outcome.UNCHANGED, finding, warnings=warnings)
    finding = Finding(Reason.CLASS_APPLIED, "effective class stamped", Severity.NORMAL)
    return Decision(Outcome.PATCHED, finding, _as_json_patch(obj, changes), warnings)


def _in_a_users_name(
    old: Namespace, ns: Namespace, desired: NamespaceKeys, own_request: str | None
) -> NamespaceKeys:
    """What of `desired` can be written in the request of the user who updates a namespace.

    To the policies of the API server the stamp is the user's own change, and they let nobody but
    the platform write provenance. A request that leaves it alone must not fail because the tree has
    moved on since it was written, so what is due by that is left to the controller. A request that
    touches it is put right as far as we know, and the policies judge what remains of it.
    """
    before, sent = NamespaceKeys.of(old), NamespaceKeys.of(ns)
    touched = _provenance(sent) != _provenance(before) or sent.enforced != before.enforced
    if touched or ns.owners != old.owners or _lets_through(before, desired):
        return desired
    if before.inherited_from is None:
        return sent
    label = before.inherited_class or before.label
    return replace(before, label=label, requested=own_request or sent.requested)


def _lets_through(before: NamespaceKeys, after: NamespaceKeys) -> bool:
    """Whether the policy on namespaces accepts this change from anybody.

    The enforced label goes with a namespace's own wish: no pod of it may be unprotected, or
    blocked, between the two.
    """
    if _provenance(after) != _provenance(before):
        return False
    wish_changed = before.inherited_from is None and after.label != before.label
    return wish_changed or after.enforced == before.enforced


def _provenance(keys: NamespaceKeys) -> tuple[str | None, ...]:
    return keys.inherited_from, keys.inherited_class, keys.inherited_from_uid


def _as_json_patch(obj: Mapping[str, Any], changes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same change of `metadata`, as RFC 6902 operations on the object under review."""
    metadata = obj.get("metadata") or {}
    before = {name: metadata.get(name) for name in changes if name in metadata}
    after = dict(before)
    for name, values in changes.items():
        merged = {**(before.get(name) or {}), **values}
        after[name] = {key: value for key, value in merged.items() if value is not None}
    operations = jsonpatch.make_patch({"metadata": before}, {"metadata": after})
    return [dict(operation) for operation in operations]
