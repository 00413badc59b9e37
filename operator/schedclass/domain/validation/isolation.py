"""Whether a class that keeps tenants on certain nodes rests on labels a node can give itself.

A kubelet may label its own Node freely outside of `kubernetes.io` and `k8s.io`, and with a fixed
set of keys inside them; the rest is refused to it by the NodeRestriction admission plugin, above
all `*.node-restriction.kubernetes.io/*`, which exists for this purpose. So a taken node can move
itself into a class that asks for nothing else.
"""

from collections.abc import Iterable
from typing import Final

from schedclass.domain import names
from schedclass.domain.findings import Reason
from schedclass.domain.podfields import REQUIRED, ClassSpec, NodeSelectorTerm
from schedclass.domain.validation.report import Report

_KUBELET_KEYS: Final = frozenset(
    {
        names.HOSTNAME_LABEL,
        names.ZONE_LABEL,
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    }
)
_KUBELET_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_RESERVED_DOMAINS: Final = ("kubernetes.io", "k8s.io")


def is_self_assignable(key: str) -> bool:
    """Whether a kubelet may set, change and remove the label `key` on its own Node."""
    domain = key.partition("/")[0] if "/" in key else ""
    if not _is_within(domain, _RESERVED_DOMAINS):
        return True
    return key in _KUBELET_KEYS or _is_within(domain, _KUBELET_DOMAINS)


def warn_self_assignable(spec: ClassSpec, path: str, report: Report) -> None:
    """Warn if a node can enter the class by labels it may set itself.

    One label that is out of the kubelet's reach is enough where conditions are ANDed, so it must
    be in the nodeSelector or in each term. A protected label that must be *absent* keeps no
    ordinary node out, so it does not count.
    """
    if any(not is_self_assignable(key) for key in spec.node_selector):
        return
    keys = set(spec.node_selector)
    field = f"{path}.nodeSelector"
    required = spec.node_affinity.required if spec.node_affinity is not None else None
    if required is not None:
        terms = [term for term in required.node_selector_terms if not term.is_empty]
        open_terms = [term for term in terms if not _is_protected(term)]
        if not open_terms:
            return
        keys |= _assignable_keys(open_terms)
        field = f"{path}.nodeAffinity.{REQUIRED}" if not spec.node_selector else field
    if keys:
        report.warn(
            Reason.SELF_ASSIGNABLE_LABELS,
            field,
            f"rests on {', '.join(sorted(keys)[:5])}, which a node may set on itself; to isolate "
            "tenants, add one such as example.node-restriction.kubernetes.io/pool",
        )


def _is_protected(term: NodeSelectorTerm) -> bool:
    """Whether no label that a kubelet may change decides if its node matches the term."""
    if any(requirement.operator == "In" for requirement in term.match_fields):
        return True  # a node cannot choose its name
    protected = [r for r in term.match_expressions if not is_self_assignable(r.key)]
    if len(protected) == len(term.match_expressions):
        return True
    return any(r.operator in ("In", "Exists", "Gt", "Lt") for r in protected)


def _assignable_keys(terms: Iterable[NodeSelectorTerm]) -> set[str]:
    return {
        requirement.key
        for term in terms
        for requirement in term.match_expressions
        if is_self_assignable(requirement.key)
    }


def _is_within(domain: str, parents: tuple[str, ...]) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)
