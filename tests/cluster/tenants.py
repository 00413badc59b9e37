"""Tenants of one test: namespaces that it nests, labels and looks at, removed afterwards."""

import contextlib
import http.client
import secrets
from typing import Any

from controlplane import ApiError, Cluster, eventually
from controlplane.waiting import PATIENCE_SECONDS
from schedclass.domain import names
from schedclass.domain.findings import Reason
from tests.cluster.objects import (
    CLASSES,
    NAMESPACES,
    Json,
    annotations,
    class_path,
    labels,
    namespace_path,
    owner_reference,
    pods_path,
    scheduling_class,
)

FINALIZE_TRIES = 5


def unique(prefix: str) -> str:
    """A name that nobody else has."""
    return f"{prefix}-{secrets.token_hex(3)}"


class Tenants:
    """Makes namespaces as a platform admin does and tells what has become of them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.api = cluster.admin
        self._created: list[str] = []
        self._with_pods: set[str] = set()

    # --- making -------------------------------------------------------------------------------

    def create(
        self,
        name: str | None = None,
        *,
        below: str | None = None,
        wants: str | None = None,
        with_account: bool = False,
        **metadata: Any,
    ) -> str:
        """Creates a namespace.

        Args:
            name: its name; by default a unique one that has no parent by name.
            below: its parent, by ownerReference.
            wants: the class in its label.
            with_account: whether pods will be created in it: they need its ServiceAccount.
            **metadata: more metadata.
        """
        name = name or unique("ns")
        self._created.append(name)
        if below is not None:
            metadata["ownerReferences"] = [owner_reference(self.get(below))]
        if wants is not None:
            metadata["labels"] = {**metadata.get("labels", {}), names.CLASS_KEY: wants}
        if with_account:
            self._with_pods.add(name)
            return self.cluster.create_namespace(name, **metadata)
        self.api.create(NAMESPACES, {"metadata": {"name": name, **metadata}})
        return name

    def create_class(self, name: str | None = None, **spec: Any) -> str:
        """Creates a class (by default one that allows every node) and returns its name."""
        name = name or unique("class")
        self.api.create(CLASSES, scheduling_class(name, **spec))
        return name

    def create_class_when_served(self, name: str) -> None:
        """Creates a class as soon as the API server knows the kind."""
        eventually("the kind is served", lambda: self.api.answers_ok(CLASSES))
        self.create_class(name)

    def adopt(self, name: str) -> str:
        """Removes a namespace afterwards that the test has made by itself."""
        self._created.append(name)
        return name

    def ask(self, name: str, class_name: str | None) -> Json:
        """Writes (None: takes off) the label of a namespace, as an admin; returns the answer."""
        return self.label(name, {names.CLASS_KEY: class_name})

    def label(self, name: str, changes: dict[str, str | None]) -> Json:
        return self.api.merge_patch(namespace_path(name), {"metadata": {"labels": changes}})

    def move(self, name: str, *, below: str | None) -> Json:
        """Makes another namespace (None: nobody) its owner."""
        owners = [owner_reference(self.get(below))] if below is not None else []
        change = {"metadata": {"ownerReferences": owners}}
        return self.api.merge_patch(namespace_path(name), change)

    def annotate(self, name: str, changes: dict[str, str | None]) -> Json:
        return self.api.merge_patch(namespace_path(name), {"metadata": {"annotations": changes}})

    def remove(self, name: str) -> None:
        """Deletes a namespace without what it owns, and waits until it is gone."""
        self.api.request("DELETE", namespace_path(name), {"propagationPolicy": "Orphan"})
        self._finalize(name)
        eventually(f"{name} is gone", lambda: self.api.find(namespace_path(name)) is None)

    def clean_up(self) -> None:
        """Deletes all of them; not waiting, as nothing that follows has their names."""
        for name in reversed(self._created):
            if self.api.find(namespace_path(name)) is not None:
                self.api.delete(namespace_path(name))
                if name in self._with_pods:
                    self._remove_pods(name)
                else:
                    self._finalize(name)

    def _remove_pods(self, name: str) -> None:
        """Spares the API server the stock scheduler, which tries to bind those that wait.

        Whenever a pod goes, it tries all of a namespace that nothing can be bound in any more: with
        hundreds of them, thousands of requests a minute.
        """
        with contextlib.suppress(
            OSError, ApiError
        ):  # the namespace controller removes them as well
            self.api.request("DELETE", pods_path(name), {"gracePeriodSeconds": 0})

    def _finalize(self, name: str) -> None:
        """Spares the namespace controller its search for content, which takes five seconds.

        Finalizers of the metadata stay: without `orphan` the garbage collector would remove what
        the namespace owns.
        """
        for _ in range(FINALIZE_TRIES):
            found = self.api.find(namespace_path(name))
            if found is None:
                return
            try:
                self.api.request(
                    "PUT", f"{namespace_path(name)}/finalize", {**found, "spec": {"finalizers": []}}
                )
            except ApiError as error:
                if error.status != http.client.CONFLICT:
                    return  # it was faster after all
            else:
                return

    # --- looking ------------------------------------------------------------------------------

    def get(self, name: str) -> Json:
        return self.api.get(namespace_path(name))

    def class_of(self, name: str) -> str | None:
        return labels(self.get(name)).get(names.CLASS_KEY)

    def origin_of(self, name: str) -> str | None:
        """From which ancestor it inherits, None for its own class or none."""
        return annotations(self.get(name)).get(names.INHERITED_FROM)

    def wish_of(self, name: str) -> str | None:
        return annotations(self.get(name)).get(names.REQUESTED_CLASS)

    def state(self, *members: str) -> dict[str, str | None]:
        return {name: self.class_of(name) for name in members}

    def settle(self, expected: dict[str, str | None], *, seconds: float = PATIENCE_SECONDS) -> None:
        """Waits until these namespaces have these classes, and are enforced accordingly."""

        def settled() -> bool:
            found = {name: labels(self.get(name)) for name in expected}
            exist = {name: self.class_exists(name) for name in {*expected.values()} if name}
            wanted = {
                name: {
                    **({names.CLASS_KEY: class_name} if class_name else {}),
                    **({names.ENFORCED: "true"} if class_name and exist[class_name] else {}),
                }
                for name, class_name in expected.items()
            }
            ours = (names.CLASS_KEY, names.ENFORCED)
            different = {
                name: shown
                for name, all_labels in found.items()
                if (shown := {k: v for k, v in all_labels.items() if k in ours}) != wanted[name]
            }
            if different:
                raise AssertionError(f"still {different}")
            return True

        eventually(f"classes are {expected}", settled, seconds=seconds)

    def class_exists(self, class_name: str) -> bool:
        return self.api.find(class_path(class_name)) is not None

    def events(self, namespace: str, reason: Reason, *, about: str | None = None) -> list[Json]:
        """Events with this reason in a namespace (about that namespace by default)."""
        items = self.api.get(f"{NAMESPACES}/{namespace}/events")["items"]
        wanted = (reason.value, about or namespace)
        return [e for e in items if (e["reason"], e["involvedObject"]["name"]) == wanted]

    def wait_event(self, namespace: str, reason: Reason, *, about: str | None = None) -> Json:
        found = eventually(
            f"an Event {reason} in {namespace}", lambda: self.events(namespace, reason, about=about)
        )
        return found[0]
