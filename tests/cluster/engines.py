"""What deployment engines do to a namespace that they manage, as requests to the API server."""

import json
from dataclasses import dataclass
from typing import Any

from controlplane import Api, ApiError
from schedclass.domain import names
from tests.cluster.objects import Json, namespace_path

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass
class Engine:
    """Brings a namespace to what its repository says, once per call.

    Attributes:
        manager: the field manager that shows up in managedFields.
        refused: how often the API server refused.
    """

    api: Api
    name: str
    manifest: Json
    manager: str = ""
    refused: int = 0

    def reconcile(self) -> None:
        """One reconciliation."""
        raise NotImplementedError

    def _patch(self, content_type: str, body: Any, *, force: bool = False) -> None:
        path = f"{namespace_path(self.name)}?fieldManager={self.manager}"
        headers = {"Content-Type": f"application/{content_type}"}
        self.api.request("PATCH", path + "&force=true" * force, body, headers=headers)


class FluxApply(Engine):
    """kustomize-controller: server-side apply that takes every field of the manifest."""

    def reconcile(self) -> None:
        self._patch("apply-patch+yaml", self.manifest, force=True)


class PlainApply(Engine):
    """`kubectl apply --server-side`: the same, but it yields where another manager owns a field."""

    def reconcile(self) -> None:
        try:
            self._patch("apply-patch+yaml", self.manifest)
        except ApiError as error:
            if error.status != 409:
                raise
            self.refused += 1


class HelmUpgrade(Engine):
    """Helm 3: a three-way strategic merge patch of what differs from the manifest it renders."""

    def reconcile(self) -> None:
        live = self.api.get(namespace_path(self.name))["metadata"]
        wanted = self.manifest["metadata"]
        changes = {
            field: {
                key: value
                for key, value in (wanted.get(field) or {}).items()
                if (live.get(field) or {}).get(key) != value
            }
            for field in ("labels", "annotations")
        }
        if any(changes.values()):
            self._patch("strategic-merge-patch+json", {"metadata": changes})


class ArgoSelfHeal(Engine):
    """Argo CD with `Replace=true`: whatever is not in the manifest is pruned."""

    def reconcile(self) -> None:
        live = self.api.get(namespace_path(self.name))["metadata"]
        metadata = {
            **self.manifest["metadata"],
            "annotations": {LAST_APPLIED: json.dumps(self.manifest)},
            "resourceVersion": live["resourceVersion"],
        }
        try:
            self.api.request(
                "PUT",
                f"{namespace_path(self.name)}?fieldManager={self.manager}",
                {**self.manifest, "metadata": metadata},
            )
        except ApiError as error:
            if error.status != 409:  # somebody was faster: the next reconciliation comes soon
                raise
            self.refused += 1


def manifest_of(live: Json, class_label: str | None) -> Json:
    """The namespace as it stands in the repository: its owner, and a class or none."""
    metadata = {"name": live["metadata"]["name"]}
    if "ownerReferences" in live["metadata"]:
        metadata["ownerReferences"] = live["metadata"]["ownerReferences"]
    labels = {"team": "a"} if class_label is None else {"team": "a", names.CLASS_KEY: class_label}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {**metadata, "labels": labels}}
