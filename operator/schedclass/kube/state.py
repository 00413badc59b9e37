"""What the operator knows of the cluster, in memory: namespaces as a tree, classes, nodes."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from schedclass.domain import names
from schedclass.domain.admission import ClassState, ClassView
from schedclass.domain.inheritance import Effective, effective_class
from schedclass.domain.namespaces import ExcludedNamespaces, Namespace, parse_namespace
from schedclass.domain.nodes import Node, parse_node
from schedclass.domain.schedulingclass import SchedulingClass, parse_class
from schedclass.domain.tenants import Tenant, parse_tenant
from schedclass.domain.tree import NamespaceTree
from schedclass.kube.store import Store

NAMESPACES_PATH = "/api/v1/namespaces"
NODES_PATH = "/api/v1/nodes"
CLASSES_PATH = f"/apis/{names.API_VERSION}/{names.PLURAL}"
TENANTS_PATH = f"/apis/{names.TENANT_API_VERSION}/tenants"
PODS_PATH = "/api/v1/pods"

UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""Selects pods that take a place or may come to; one that ends is deleted for such a watch."""

PODS_RESYNC_FACTOR: Final = 6
"""Complete lists of pods are made more rarely than of the others: they can take 100 MB."""


class ClusterState:
    """The stores of one process and the tree that follows them.

    Attributes:
        namespaces, classes, nodes, tenants: the stores; whoever feeds them decides how.
        tree: the namespaces of the store, linked.
        on_affected: called with the names whose class may have changed by a namespace event.
    """

    def __init__(
        self,
        excluded: ExcludedNamespaces,
        *,
        stale_after: float,
        namespace_labels: bool = False,
    ) -> None:
        """Begin empty.

        Args:
            excluded: namespaces that are never pinned.
            stale_after: seconds without word from the API server after which absence is no longer
                certain.
            namespace_labels: keep the labels of namespaces, too.
        """
        self.namespaces: Store[Namespace] = Store(
            partial(parse_namespace, keep_labels=namespace_labels)
        )
        self.classes: Store[SchedulingClass] = Store(parse_class)
        self.nodes: Store[Node] = Store(parse_node)
        # An aggregated API promises no order of its resourceVersions.
        self.tenants: Store[Tenant] = Store(parse_tenant, ordered=False)
        self.tree = NamespaceTree(excluded)
        self.on_affected: Callable[[frozenset[str]], None] | None = None
        self._stale_after = stale_after
        self.namespaces.on_change(self._namespace_changed)
        self.tenants.on_change(self._tenant_changed)

    def _namespace_changed(self, key: str, _: Namespace | None, new: Namespace | None) -> None:
        affected = self.tree.remove(key) | {key} if new is None else self.tree.put(new)
        self._tell(affected)

    def _tenant_changed(self, key: str, _: Tenant | None, new: Tenant | None) -> None:
        targets = self.tree.tenants.put(key, new)
        self._tell({name for target in targets for name in self.tree.descendants(target)})

    def _tell(self, affected: Iterable[str]) -> None:
        names_affected = frozenset(affected)
        if self.on_affected is not None and names_affected:
            self.on_affected(names_affected)

    def effective(self, name: str) -> Effective | None:
        """The class that applies to a namespace; None when the namespace is not known."""
        ns = self.tree.get(name)
        return effective_class(self.tree, ns) if ns is not None else None

    def view_class(self, name: str) -> ClassView:
        """The class of that name. Absent only when the store would know it."""
        found = self.classes.get(name)
        if found is not None:
            return ClassView(ClassState.EXISTS, found)
        known = self.classes.synced and self.classes.fresh(self._stale_after)
        return ClassView(ClassState.ABSENT if known else ClassState.UNKNOWN)

    def class_exists(self, name: str | None) -> bool | None:
        """Whether a class exists; None when that is not known."""
        if name is None:
            return False
        state = self.view_class(name).state
        return None if state is ClassState.UNKNOWN else state is ClassState.EXISTS
