"""What the extender knows of the cluster: stores that watches feed, and the index of decisions.

The index follows the stores within the same call, so a decision never sees half of a change.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from schedclass.domain.namespaces import ExcludedNamespaces, Namespace
from schedclass.domain.nodes import Node
from schedclass.domain.scheduling import Cluster, Pod, compile_class, departed, parse_pod
from schedclass.domain.schedulingclass import SchedulingClass
from schedclass.kube.state import ClusterState
from schedclass.kube.store import Store
from schedclass.scheduler.promises import Promises

read_pod: Final = partial(parse_pod, prospects=True)
"""How the extender reads every pod: two of one version are equal, wherever they come from."""


class SchedulerState:
    """Namespaces, classes, nodes and pods, and `cluster`, which follows them.

    Attributes:
        known: namespaces with their tree, tenants, classes and nodes.
        pods: pods that are not finished.
        cluster: what decisions read.
        nominated: pods without a node to which a preemption promises one, by uid. Hints of our
            own (see nominator.py) promise nothing.
        preempting: uids of pods for which a preemption has found victims.
        promises: where pods go whose volumes are being made.
        indexes: the stores without which nothing is decided, by resource.
    """

    def __init__(
        self,
        excluded: ExcludedNamespaces,
        *,
        default_label_keys: Iterable[str],
        stale_after: float,
    ) -> None:
        """Begin empty.

        Args:
            excluded: namespaces that are never pinned.
            default_label_keys: see `Cluster`.
            stale_after: seconds without word from the API server after which nothing is decided.
        """
        self.known = ClusterState(excluded, stale_after=stale_after, namespace_labels=True)
        self.pods: Store[Pod] = Store(read_pod)
        self.cluster = Cluster(default_label_keys=default_label_keys, own_terms=False)
        self.indexes: dict[str, Store[Any]] = {
            "namespaces": self.known.namespaces,
            "schedulingclasses": self.known.classes,
            "nodes": self.known.nodes,
            "pods": self.pods,
        }
        self.nominated: dict[str, Pod] = {}
        self.preempting: set[str] = set()
        self._nominations = 0
        self.promises = Promises(self._tell)
        self._stale_after = stale_after
        self._listeners: list[Callable[[], None]] = []
        self._version = self.version
        self.known.on_affected = self._classes_affected
        self.known.namespaces.on_change(self._namespace_changed)
        self.known.classes.on_change(self._class_changed)
        self.known.nodes.on_change(self._node_changed)
        self.pods.on_change(self._pod_changed)

    @property
    def version(self) -> int:
        """Moves with every change that can matter to a decision."""
        return self.cluster.version + self._nominations + self.promises.version

    def on_news(self, listener: Callable[[], None]) -> None:
        """Have a function called after each change that can matter to a decision."""
        self._listeners.append(listener)

    def problem(self) -> str | None:
        """Why nothing can be decided at the moment, one sentence; None if all is known."""
        for resource, index in self.indexes.items():
            if not index.synced:
                return f"the first complete list of {resource} is not there yet"
            if not index.fresh(self._stale_after):
                return f"nothing was heard of {resource} for {self._stale_after:g} s"
        return None

    def current(self, raw: Mapping[str, Any]) -> Pod:
        """The pod of a request, from our own copy where that is the same version.

        Raises:
            ValueError: a field has a value of the wrong type.
        """
        metadata = raw.get("metadata")
        if isinstance(metadata, Mapping):
            known = self.pods.get(f"{metadata.get('namespace')}/{metadata.get('name')}")
            if (
                known is not None
                and known.uid == metadata.get("uid")
                and known.resource_version == metadata.get("resourceVersion")
            ):
                return known
        return read_pod(raw)

    def pod(self, namespace: str, name: str, uid: str) -> Pod | None:
        """The pod of that name if it has that uid."""
        found = self.pods.get(f"{namespace}/{name}")
        return found if found is not None and found.uid == uid else None

    def is_leaving(self, namespace: str) -> bool:
        """Whether a namespace is being deleted: the API server binds none of its pods any more."""
        found = self.known.namespaces.get(namespace)
        return found is not None and found.deleting

    def preempts(self, pod: Pod) -> None:
        """kube-scheduler has found victims for a pod: the node it names then is no hint of ours.

        No event would tell so where it names the same one.
        """
        known = self.pod(pod.namespace, pod.name, pod.uid)
        if known is not None:  # of one that is gone nobody would tell when it may be forgotten
            self.preempting.add(known.uid)
            self._note_nominations(known, known)
            self._tell()

    def _classes_affected(self, names: Iterable[str]) -> None:
        for name in names:
            self._refresh_namespace(name)
        self._tell()

    def _namespace_changed(self, name: str, _: Namespace | None, new: Namespace | None) -> None:
        if new is None:
            self.cluster.remove_namespace(name)
        else:
            self._refresh_namespace(name)
        self._tell()

    def _refresh_namespace(self, name: str) -> None:
        namespace = self.known.namespaces.get(name)
        effective = self.known.effective(name)
        if namespace is not None and effective is not None:
            self.cluster.put_namespace(name, namespace.labels, effective.class_name)

    def _class_changed(
        self, name: str, old: SchedulingClass | None, new: SchedulingClass | None
    ) -> None:
        if new is None:
            self.cluster.remove_class(name)
        elif old is None or old.rules != new.rules:
            self.cluster.put_class(compile_class(new))
        self._tell()

    def _node_changed(self, name: str, _: Node | None, new: Node | None) -> None:
        if new is None:
            self.cluster.remove_node(name)
        else:
            self.cluster.put_node(new)
        self._tell()

    def _pod_changed(self, _: str, old: Pod | None, new: Pod | None) -> None:
        if gone := departed(old, new):
            self.cluster.remove_pod(gone.uid)
            self.preempting.discard(gone.uid)
        if new is not None:
            self.cluster.put_pod(new)
            if new.node_name:
                self.preempting.discard(new.uid)
        self._note_nominations(old, new)
        self._note_promises(old, new)
        self._tell()

    def _note_nominations(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and self.nominated.pop(old.uid, None) is not None:
            self._nominations += 1
        if new is None or new.node_name or not new.nominated_node:
            return
        if not new.hinted or new.uid in self.preempting:
            self.nominated[new.uid] = new
            self._nominations += 1

    def _note_promises(self, old: Pod | None, new: Pod | None) -> None:
        if old is None:
            return
        if (
            new is None
            or new.uid != old.uid
            or new.node_name
            or new.terminating
            or (new.refusal and new.refusal != old.refusal)
        ):
            self.promises.withdraw(old.uid)

    def _tell(self) -> None:
        if self._version != self.version:
            self._version = self.version
            for listener in self._listeners:
                listener()
