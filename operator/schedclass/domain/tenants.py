"""Tenant objects as the source of a namespace's own request.

A Tenant lies in its parent's namespace and describes a namespace below it. Who may create Tenants
in one namespace must gain no say over any other, so a Tenant speaks for a namespace only if that
namespace's parent is where the Tenant lies, whatever its status claims.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schedclass.domain import names


@dataclass(frozen=True, slots=True)
class Tenant:
    """What placement needs to know of an apps.cozystack.io/v1alpha1 Tenant.

    Attributes:
        namespace: where it lies, the parent's namespace.
        name: its name.
        class_name: `spec.schedulingClass`; None when absent or empty.
        status_namespace: `status.namespace`; empty when absent.
    """

    namespace: str
    name: str
    class_name: str | None = None
    status_namespace: str = ""

    @property
    def target(self) -> str:
        """The namespace it describes, as Cozystack computes it where the status does not say."""
        if self.status_namespace:
            return self.status_namespace
        prefix = "tenant" if self.namespace == names.TENANT_ROOT else self.namespace
        return f"{prefix}-{self.name}"


def parse_tenant(obj: Mapping[str, Any]) -> Tenant:
    """Read a Tenant.

    Raises:
        KeyError: the object has no name or namespace, so it is no stored object.
    """
    metadata = obj["metadata"]
    spec = obj.get("spec")
    status = obj.get("status")
    wish = spec.get("schedulingClass") if isinstance(spec, Mapping) else None
    target = status.get("namespace") if isinstance(status, Mapping) else None
    return Tenant(
        namespace=str(metadata["namespace"]),
        name=str(metadata["name"]),
        class_name=wish if isinstance(wish, str) and wish else None,
        status_namespace=target if isinstance(target, str) else "",
    )


class TenantIndex:
    """Tenants by the namespace that they describe."""

    def __init__(self) -> None:
        """Begin empty, as where the Tenant API is not served."""
        self._tenants: dict[str, Tenant] = {}
        self._by_target: defaultdict[str, dict[str, Tenant]] = defaultdict(dict)

    def put(self, key: str, tenant: Tenant | None) -> frozenset[str]:
        """Insert or replace a Tenant under its key, or forget it.

        Returns:
            The names of the namespaces whose request may have changed.
        """
        old = self._tenants.pop(key, None)
        if old is not None:
            del self._by_target[old.target][key]
            if not self._by_target[old.target]:
                del self._by_target[old.target]
        if tenant is not None:
            self._tenants[key] = tenant
            self._by_target[tenant.target][key] = tenant
        return frozenset(found.target for found in (old, tenant) if found is not None)

    def speaking_for(self, namespace: str, parent: str | None) -> Tenant | None:
        """The Tenant that speaks for a namespace; of several the first by key.

        Args:
            namespace: its name.
            parent: the name of its parent in the tree, None if it has none.
        """
        candidates = self._by_target.get(namespace)
        if not candidates:
            return None
        home = namespace if namespace == names.TENANT_ROOT else parent
        return next(
            (candidates[key] for key in sorted(candidates) if candidates[key].namespace == home),
            None,
        )
