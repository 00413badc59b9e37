"""Which class applies to a namespace, and what must stand on the namespace for it.

The rule, root-most first: the request of the first ancestor-or-self that has one decides for all
below. A child cannot override, and a parent that is gone never means that the class is taken off.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

from schedclass.domain import names
from schedclass.domain.findings import Finding, Reason, Severity
from schedclass.domain.namespaces import Namespace, is_writable_class_name
from schedclass.domain.tenants import Tenant
from schedclass.domain.text import shortened, visible
from schedclass.domain.tree import NamespaceTree

_NAME_SHOWN: Final = 63
"""As many bytes as a class name in a label can have."""


@dataclass(frozen=True, slots=True)
class Effective:
    """The class that applies to one namespace and where it comes from.

    Attributes:
        class_name: the effective class, None for no class.
        origin: the namespace whose request decides; the namespace itself for its own request.
        origin_uid: uid of the origin at the time of the decision; empty when unknown.
        own_request: what the namespace itself asks for, in force or not.
        kept: the class is kept from before because its origin is gone.
    """

    class_name: str | None = None
    origin: str = ""
    origin_uid: str = ""
    own_request: str | None = None
    kept: bool = False


def own_request(tree: NamespaceTree, ns: Namespace) -> str | None:
    """What a namespace asks for itself, whatever its ancestors say.

    The Tenant that speaks for it decides, if there is one. Where none does, in this order: a label
    that somebody wrote over the inherited one (it is younger than the wish that was set aside
    then), the wish kept in the annotation, a label that was not inherited. As the last two are what
    was written for a Tenant's wish, nothing changes while the Tenant API cannot be read.

    Returns:
        A class name that can stand in a label, or None. A wish that cannot is ignored here and
        reported by `findings`.
    """
    tenant = tree.tenant_of(ns)
    if tenant is not None:
        usable = tenant.class_name is not None and is_writable_class_name(tenant.class_name)
        return tenant.class_name if usable else None
    inherited = ns.inherited_from is not None
    if inherited and ns.inherited_class and ns.label and ns.label != ns.inherited_class:
        return ns.label
    if ns.requested is not None and is_writable_class_name(ns.requested):
        return ns.requested
    return None if inherited else ns.label


def kept_class(tree: NamespaceTree, ns: Namespace) -> str | None:
    """The class `ns` inherited from an ancestor that is gone, which it must not lose by that.

    The origin is gone when no namespace has its name, when one was re-created under that name with
    another uid, or when the link to it broke: every owner of kind Namespace vanished, or no parent
    is left at all (garbage collection with orphaning removes the reference itself). A namespace
    that was moved under another living parent is not kept: it follows the new one. Nor is one that
    still has the very origin above it, by its name: what the origin asks for now counts.
    """
    if ns.inherited_from is None:
        return None
    origin = tree.get(ns.inherited_from)
    replaced = (
        origin is not None
        and ns.inherited_from_uid is not None
        and origin.uid != ns.inherited_from_uid
    )
    if origin is None or replaced or _is_cut_off(tree, ns):
        return ns.inherited_class or ns.label
    return None


def _is_cut_off(tree: NamespaceTree, ns: Namespace) -> bool:
    """Whether a link of `ns` upwards broke and the origin of its class is not above it any more."""
    if tree.parent_of(ns) is None:
        return True
    return tree.has_dangling_owner(ns) and not any(
        ancestor.name == ns.inherited_from and ancestor.uid == ns.inherited_from_uid
        for ancestor in tree.ancestors(ns)
    )


def effective_class(tree: NamespaceTree, ns: Namespace) -> Effective:
    """Decide for `ns`, which need not be in the tree itself (a namespace under review).

    Only ancestors are looked up in `tree`. Cost: the depth of the tree.
    """
    if ns.name in tree.excluded:
        return Effective()
    own = own_request(tree, ns)
    for member in _root_first(tree, ns):
        kept = kept_class(tree, member)
        request = kept or own_request(tree, member)
        if request is None or member.name in tree.excluded:
            continue
        if member.name != ns.name:
            return Effective(request, member.name, member.uid, own)
        if kept is None:
            return Effective(own, ns.name, ns.uid, own)
        return Effective(kept, ns.inherited_from or "", ns.inherited_from_uid or "", own, kept=True)
    return Effective()


def admitting(ns: Namespace | None, effective: Effective) -> Effective:
    """By which class pods of a namespace are admitted: the effective one, but for one moment.

    While its label `enforced` is still there after the last class was taken off, policies of the
    API server refuse pods without one. So what the label names goes on until the controller has
    taken both off: nobody is blocked by a change that is on its way down the tree.
    """
    if effective.class_name is not None or ns is None or not ns.enforced or ns.label is None:
        return effective
    return replace(effective, class_name=ns.label, origin=ns.inherited_from or ns.name)


def _root_first(tree: NamespaceTree, ns: Namespace) -> list[Namespace]:
    """The ancestors of `ns` and itself, the one that decides first.

    A chain that runs into a cycle has no root. So that all members of the cycle agree and none is
    unpinned by it, its members stand in for the root in the order of their names.
    """
    members = [ns, *tree.ancestors(ns)]
    closing = tree.parent_of(members[-1])
    start = next((i for i, member in enumerate(members) if member.name == closing), len(members))
    cycle = sorted(members[start:], key=lambda member: member.name)
    return [*cycle, *members[:start][::-1]]


@dataclass(frozen=True, slots=True)
class NamespaceKeys:
    """Our keys on a namespace, present (a value) or absent (None)."""

    label: str | None
    enforced: bool
    inherited_from: str | None
    inherited_class: str | None
    inherited_from_uid: str | None
    requested: str | None

    @classmethod
    def of(cls, ns: Namespace) -> "NamespaceKeys":
        """What stands on `ns` now."""
        return cls(
            ns.label,
            ns.enforced,
            ns.inherited_from,
            ns.inherited_class,
            ns.inherited_from_uid,
            ns.requested,
        )

    def labels(self) -> dict[str, str | None]:
        """Label keys and values, None for absent."""
        return {names.CLASS_KEY: self.label, names.ENFORCED: "true" if self.enforced else None}

    def annotations(self) -> dict[str, str | None]:
        """Annotation keys and values, None for absent."""
        return {
            names.INHERITED_FROM: self.inherited_from,
            names.INHERITED_CLASS: self.inherited_class,
            names.INHERITED_FROM_UID: self.inherited_from_uid,
            names.REQUESTED_CLASS: self.requested,
        }


def desired_keys(
    ns: Namespace, effective: Effective, *, class_exists: bool | None
) -> NamespaceKeys:
    """What must stand on `ns`.

    Args:
        ns: the namespace as read.
        effective: the decision for it.
        class_exists: whether the effective class exists; None when that is not known, and then
            the enforced label stays as it is.
    """
    inherited = effective.class_name is not None and effective.origin != ns.name
    enforced = ns.enforced if class_exists is None else class_exists
    unusable_wish = ns.requested if not is_writable_class_name(ns.requested or "") else None
    return NamespaceKeys(
        label=effective.class_name,
        enforced=enforced and effective.class_name is not None,
        inherited_from=effective.origin if inherited else None,
        inherited_class=effective.class_name if inherited else None,
        inherited_from_uid=(effective.origin_uid or None) if inherited else None,
        requested=(effective.own_request if inherited else None) or unusable_wish,
    )


def merge_patch(current: NamespaceKeys, desired: NamespaceKeys) -> dict[str, Any]:
    """The RFC 7396 merge patch of `metadata` that leads from one to the other.

    Returns:
        `{"labels": {...}, "annotations": {...}}` with only the keys that differ, null for those to
        remove; `{}` when nothing differs, so that nothing is written.
    """
    patch: dict[str, Any] = {}
    for field, now, then in (
        ("labels", current.labels(), desired.labels()),
        ("annotations", current.annotations(), desired.annotations()),
    ):
        changed = {key: then[key] for key in then if then[key] != now[key]}
        if changed:
            patch[field] = changed
    return patch


def findings(tree: NamespaceTree, ns: Namespace, effective: Effective) -> tuple[Finding, ...]:
    """What is worth telling about the namespace: as Events, as admission warnings, in the CLI."""
    if ns.name in tree.excluded:
        return _excluded_findings(ns)
    return tuple(
        finding
        for finding in (
            _unusable_wish(tree, ns),
            _override_ignored(ns, effective),
            _parent_missing(effective),
        )
        if finding is not None
    )


def _excluded_findings(ns: Namespace) -> tuple[Finding, ...]:
    if ns.label is None and ns.requested is None:
        return ()
    key = names.REQUESTED_CLASS if ns.label is None else names.CLASS_KEY
    message = f"{ns.name} takes no class, so its {key} is ignored; remove it"
    return (Finding(Reason.NAMESPACE_EXCLUDED, message),)


def _unusable_wish(tree: NamespaceTree, ns: Namespace) -> Finding | None:
    tenant = tree.tenant_of(ns)
    wish, where = (
        (ns.requested, names.REQUESTED_CLASS)
        if tenant is None
        else (tenant.class_name, f"spec.schedulingClass of Tenant {tenant.namespace}/{tenant.name}")
    )
    if wish is None or is_writable_class_name(wish):
        return None
    shown = shortened(visible(wish), _NAME_SHOWN)
    message = f'"{shown}" is no class name and is ignored; correct {where}'
    return Finding(Reason.INVALID_REQUEST, message)


def _override_ignored(ns: Namespace, effective: Effective) -> Finding | None:
    wish = effective.own_request
    if wish is None or wish == effective.class_name or effective.origin == ns.name:
        return None
    return _overridden(wish, effective)


def _overridden(wish: str, effective: Effective) -> Finding:
    message = (
        f'scheduling class "{wish}" is ignored: {effective.origin} sets "{effective.class_name}" '
        "for all tenants below it"
    )
    return Finding(Reason.OVERRIDE_IGNORED, message)


def _parent_missing(effective: Effective) -> Finding | None:
    if not effective.kept:
        return None
    message = (
        f'{effective.origin} is gone, its class "{effective.class_name}" stays; '
        f"remove {names.INHERITED_FROM} to decide anew"
    )
    return Finding(Reason.PARENT_MISSING, message)


def inherited_finding(effective: Effective) -> Finding:
    """The Event of a namespace that has just received its ancestor's class."""
    message = f'scheduling class "{effective.class_name}" is inherited from {effective.origin}'
    return Finding(Reason.CLASS_INHERITED, message, Severity.NORMAL)


def undone_finding(
    tree: NamespaceTree, old: Namespace | None, ns: Namespace, effective: Effective
) -> Finding | None:
    """What is said to one who writes a class onto a namespace, or takes it off, in vain.

    The tree decides again at once, and whoever wrote has to learn where their wish belongs. It is
    no finding about the namespace, on which nothing of it is left.

    Args:
        tree: the known namespaces.
        old: the namespace before the request; None if the request creates it.
        ns: as the request has it.
        effective: the decision for `ns`.
    """
    if old is not None and old.label is not None and ns.label is None:
        return _stays(tree, ns, effective)
    tenant = tree.tenant_of(ns)
    if tenant is None:
        return None  # what is written is the namespace's own wish, and `findings` tells its fate
    label, requested = (None, None) if old is None else (old.label, old.requested)
    for before, wish in ((label, ns.label), (requested, ns.requested)):
        if wish is None or wish in {before, tenant.class_name, effective.class_name}:
            continue
        shown = shortened(visible(wish), _NAME_SHOWN)  # an annotation can hold anything
        if effective.class_name is not None and effective.origin != ns.name:
            return _overridden(shown, effective)
        return _tenant_decides(f'class "{shown}" is ignored', tenant)
    return None


def _stays(tree: NamespaceTree, ns: Namespace, effective: Effective) -> Finding | None:
    if effective.class_name is None or not effective.origin:
        return None
    if effective.origin == ns.name:
        tenant = tree.tenant_of(ns)
        stays = f'class "{effective.class_name}" stays'
        return None if tenant is None else _tenant_decides(stays, tenant)
    inherited = inherited_finding(effective)
    message = f"{inherited.message}, so the label stays; it can be taken off there only"
    return Finding(Reason.CLASS_INHERITED, message)


def _tenant_decides(what: str, tenant: Tenant) -> Finding:
    message = (
        f"{what}: Tenant {tenant.namespace}/{tenant.name} decides; set spec.schedulingClass there"
    )
    return Finding(Reason.TENANT_DECIDES, message)
