"""A tenant who may do everything inside its namespace, and more, and wants out of its class."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from controlplane import ApiError, Installation, Kubectl, eventually
from schedclass.domain import names
from tests.cluster.grants import wait_granted
from tests.cluster.objects import (
    Json,
    annotations,
    labels,
    namespace_path,
    owner_reference,
    pod,
    pods_path,
)
from tests.cluster.tenants import Tenants, unique

WEST, EAST = "dc-west", "dc-east"
INSIDE = {"node-1", "node-2"}
RBAC = "/apis/rbac.authorization.k8s.io/v1"

WORKLOADS = [
    {
        "apiGroups": [""],
        "resources": ["pods", "pods/binding", "bindings", "pods/status", "pods/resize"],
        "verbs": ["*"],
    },
    {
        "apiGroups": [""],
        "resources": ["pods/ephemeralcontainers", "pods/eviction", "serviceaccounts", "events"],
        "verbs": ["*"],
    },
    {"apiGroups": ["apps", "batch"], "resources": ["*"], "verbs": ["*"]},
]


class Outcome(Enum):
    """What became of an attempt."""

    REFUSED = "refused"
    PINNED = "the pod is pinned to the class"
    HELD = "accepted, and our scheduler decides on the node"
    NO_EFFECT = "accepted, and what pins the namespace is as before"


@dataclass(frozen=True)
class Attempt:
    """One thing to try.

    Attributes:
        name: what it is, as the id of the test.
        act: tries it; returns the pod if it makes one.
        answered: what becomes of it while our replicas answer.
        alone: what becomes of it while all of them are down.
        says: what each refusal must say, beside what it is about.
    """

    name: str
    act: Callable[["HostileTenant"], Json | None]
    answered: Outcome
    alone: Outcome
    says: str = ""


class HostileTenant:
    """One namespace below a pinned tenant, everybody in it, and its neighbours.

    Attributes:
        namespace: its own, a child of `parent`, which asks for dc-west.
        other: somebody else's, with the class dc-east.
        free: one without a class.
        api: acts as its ServiceAccount with every right inside the namespace, on the namespace
            object itself, and to create namespaces.
    """

    def __init__(self, operator: Installation) -> None:
        self.operator = operator
        self.cluster = operator.cluster
        self.admin = operator.cluster.admin
        self.tenants = Tenants(self.cluster)
        self.parent = self.tenants.create(unique("tenant"), wants=WEST)
        self.other = self.tenants.create(unique("tenant"), wants=EAST)
        self.free = self.tenants.create()
        self.namespace = self.tenants.create(
            f"{self.parent}-evil", below=self.parent, with_account=True
        )
        self.tenants.settle({self.namespace: WEST, self.other: EAST, self.free: None})
        self._grants = f"hostile-{self.namespace}"
        self._grant()
        self.api = self.cluster.identities.service_account_api(self.namespace, "default")
        wait_granted(self.api, "create", "pods", namespace=self.namespace)
        wait_granted(self.api, "patch", "namespaces", name=self.namespace)
        self.before = self.protection()

    def clean_up(self) -> None:
        """Removes what it made and what it was granted."""
        for kind in ("clusterrolebindings", "clusterroles"):
            self.admin.delete(f"{RBAC}/{kind}/{self._grants}")
        self.tenants.clean_up()

    def _grant(self) -> None:
        account = {"kind": "ServiceAccount", "name": "default", "namespace": self.namespace}
        own = {
            "apiGroups": [""],
            "resources": ["namespaces", "namespaces/status", "namespaces/finalize"],
            "resourceNames": [self.namespace],
            "verbs": ["get", "update", "patch", "delete"],
        }
        anew = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create"]}
        inside = f"{RBAC}/namespaces/{self.namespace}"
        for path, kind, rules in (
            (inside, "Role", WORKLOADS),
            (RBAC, "ClusterRole", [own, anew]),
        ):
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind}
            name = self._grants
            self.admin.create(
                f"{path}/{kind.lower()}s", {"metadata": {"name": name}, "rules": rules}
            )
            self.admin.create(
                f"{path}/{kind.lower()}bindings",
                {
                    "metadata": {"name": name},
                    "roleRef": {**reference, "name": name},
                    "subjects": [account],
                },
            )

    @property
    def kubectl(self) -> Kubectl:
        """kubectl as the tenant."""
        path = self.cluster.identities.service_account_kubeconfig(self.namespace, "default")
        return self.cluster.kubectl.as_user(path)

    # --- what it does -------------------------------------------------------------------------

    def create_pod(
        self, body: Mapping[str, Any] | None = None, query: str = "", **spec: Any
    ) -> Json:
        """Creates a pod of a name nobody has, unless the body is given."""
        return self.api.create(
            pods_path(self.namespace) + query, body or pod(unique("try"), **spec)
        )

    def annotated_pod(self, values: Mapping[str, str], **spec: Any) -> Json:
        return self.create_pod(pod(unique("try"), metadata={"annotations": dict(values)}, **spec))

    def pod_path(self, name: str, *subresource: str) -> str:
        return "/".join((pods_path(self.namespace), name, *subresource))

    def patch(self, path: str, body: object, kind: str = "merge-patch+json") -> Json:
        return self.api.request(
            "PATCH", path, body, headers={"Content-Type": f"application/{kind}"}
        )

    def patch_namespace(
        self, metadata: Mapping[str, Any], *subresource: str, kind: str = "merge-patch+json"
    ) -> None:
        path = "/".join((namespace_path(self.namespace), *subresource))
        self.patch(path, {"metadata": metadata}, kind)

    def apply(self, path: str, body: Mapping[str, Any]) -> Json:
        """Server-side apply that forces its will."""
        return self.patch(f"{path}?fieldManager=hostile&force=true", body, "apply-patch+yaml")

    def replace_namespace(self, *subresource: str, **metadata: Any) -> None:
        """Writes the whole object back with other metadata."""
        path = namespace_path(self.namespace)
        found = self.api.get(path)
        found["metadata"] |= metadata
        self.api.request("PUT", "/".join((path, *subresource)), found)

    def bind(self, name: str, node: str, query: str = "") -> None:
        target = {"kind": "Node", "name": node}
        body = {"metadata": {"name": name}, "target": target}
        self.api.create(self.pod_path(name, "binding") + query, body)

    def create_namespace(self, name: str, **metadata: Any) -> Json:
        named = {} if "generateName" in metadata else {"name": name}
        created = self.api.create("/api/v1/namespaces", {"metadata": {**named, **metadata}})
        self.tenants.adopt(created["metadata"]["name"])
        return created

    # --- what a platform may expect -----------------------------------------------------------

    def wait_running(self, name: str) -> None:
        """Waits until our scheduler has placed a pod, and it runs."""
        path = self.pod_path(name)
        eventually(f"{name} runs", lambda: self.admin.get(path)["status"]["phase"] == "Running")

    def protection(self) -> Json:
        """What pins the namespace, whatever the wish in its label says."""
        found = self.tenants.get(self.namespace)
        ours = (names.INHERITED_FROM, names.INHERITED_CLASS, names.INHERITED_FROM_UID)
        return {
            "enforced": labels(found).get(names.ENFORCED),
            "name": labels(found).get(names.NAMESPACE_NAME),
            "owners": found["metadata"].get("ownerReferences"),
            **{key: annotations(found).get(key) for key in ours},
        }

    def pods(self) -> list[Json]:
        items: list[Json] = self.admin.get(pods_path(self.namespace))["items"]
        return items

    def escaped(self) -> list[Json]:
        """Pods that run, or will be placed, by anything but the class."""
        return [item for item in self.pods() if escapes(item)]


def escapes(item: Mapping[str, Any]) -> bool:
    spec = item["spec"]
    ours = spec["schedulerName"] == names.SCHEDULER_NAME and names.CLASS_KEY in annotations(item)
    return not ours or spec.get("nodeName", "node-1") not in INSIDE


def outcome_of(attempt: Attempt, tenant: HostileTenant) -> tuple[Outcome, str]:
    """Tries it; returns what became of it, and the text of a refusal."""
    try:
        made = attempt.act(tenant)
    except ApiError as refusal:
        return Outcome.REFUSED, str(refusal.body.get("message"))
    if made is None:
        return Outcome.NO_EFFECT, ""
    assert not escapes(made), made
    right = annotations(made)[names.CLASS_KEY] == WEST
    return (Outcome.PINNED if right else Outcome.HELD), ""


def owners(tenant: HostileTenant, *members: str) -> list[Json]:
    return [owner_reference(tenant.tenants.get(name)) for name in members]


def ids(attempts: Iterable[Attempt]) -> list[str]:
    return [attempt.name for attempt in attempts]
