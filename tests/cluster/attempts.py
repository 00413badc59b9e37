"""The table of what a hostile tenant tries, with what becomes of it: answered, and with us down."""

from functools import partial
from typing import Any, Final

from schedclass.domain import names
from tests.cluster.hostile import EAST, WEST, Attempt, HostileTenant, Outcome, owners
from tests.cluster.objects import Json, namespace_path, owner_reference, pod
from tests.cluster.tenants import unique

REFUSED, PINNED, HELD, NO_EFFECT = Outcome

SELF_PINNED: Json = {"schedulerName": names.SCHEDULER_NAME}
MIRROR = {names.MIRROR_POD: "hash"}
FORGED = {names.CLASS_KEY: EAST}
WHOLE_MEBIBYTE = "x" * 2**20
LARGEST = "x" * 250_000
GATE = [{"name": "example.com/hold"}]
STRATEGIC, JSON = "strategic-merge-patch+json", "json-patch+json"
KEY = names.CLASS_KEY.replace("/", "~1")

LATER = "create the pod again later"
LEAVE = "leave it as it is|leave them as they are"
BINDING = "leave binding to it"
NODE = "leave nodeName to the scheduler|pods-that-name-their-node-wait-for-the-operator|" + LATER
PROTECTED = "only the operator writes"
OWNERS = "only the identities of the platform change them"
WAIT = "namespaces-of-tenants-wait-for-the-operator"

SKIP_LABELS = (
    {"internal.cozystack.io/managed-by-cozystack": "true"},
    {"admission.gatekeeper.sh/ignore": "true", "control-plane": "controller-manager"},
    {"webhooks.knative.dev/exclude": "true", "kubernetes.io/metadata.name": "kube-system"},
    {names.ENFORCED: "false", names.CLASS_KEY: EAST},
)


def labelled(values: Json, tenant: HostileTenant) -> Json:
    return tenant.create_pod(pod(unique("try"), metadata={"labels": values}))


def owned_by_a_daemon_set(tenant: HostileTenant) -> Json:
    fake = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "x", "uid": "1"}
    metadata = {"ownerReferences": [{**fake, "controller": True}]}
    return tenant.create_pod(pod(unique("try"), metadata=metadata))


def applied(tenant: HostileTenant) -> Json:
    body = pod(unique("try"), schedulerName="default-scheduler")
    return tenant.apply(tenant.pod_path(body["metadata"]["name"]), body)


def generated(tenant: HostileTenant) -> Json:
    return tenant.create_pod(pod(metadata={"name": None, "generateName": "try-"}))


def pod_row(name: str, says: str = LATER, /, **spec: Any) -> Attempt:
    return Attempt(name, lambda t: t.create_pod(**spec), PINNED, REFUSED, says)


NEW_PODS: Final = [
    pod_row("a pod"),
    *(pod_row(f"scheduler {name}", schedulerName=name) for name in ("default-scheduler", "stork")),
    pod_row("a scheduling gate", schedulingGates=GATE),
    pod_row("a node selector", nodeSelector={"kubernetes.io/hostname": "node-3"}),
    Attempt("a dry run", lambda t: t.create_pod(query="?dryRun=All"), PINNED, REFUSED, LATER),
    Attempt("a generated name", generated, PINNED, REFUSED, LATER),
    Attempt("server-side apply", applied, PINNED, REFUSED, LATER),
    Attempt("a DaemonSet as owner", owned_by_a_daemon_set, PINNED, REFUSED, LATER),
    Attempt("another class", lambda t: t.annotated_pod(FORGED), PINNED, REFUSED, LATER),
    Attempt(
        "another class and our scheduler",
        lambda t: t.annotated_pod(FORGED, **SELF_PINNED),
        PINNED,
        HELD,
    ),
    Attempt(
        "an empty class and our scheduler",
        lambda t: t.annotated_pod({names.CLASS_KEY: ""}, **SELF_PINNED),
        PINNED,
        REFUSED,
        LATER,
    ),
    *(
        Attempt(f"skip labels {n}", partial(labelled, values), PINNED, REFUSED, LATER)
        for n, values in enumerate(SKIP_LABELS)
    ),
    Attempt(
        "a static pod's annotation",
        lambda t: t.annotated_pod({"kubernetes.io/config.source": "file"}),
        PINNED,
        REFUSED,
        LATER,
    ),
    Attempt("large annotations", lambda t: t.annotated_pod({"a": LARGEST}), PINNED, REFUSED, LATER),
    Attempt(
        "an annotation of 1 MiB",
        lambda t: t.annotated_pod({"a": WHOLE_MEBIBYTE}),
        REFUSED,
        REFUSED,
        "Too long|" + LATER,
    ),
    pod_row("a node of the class", NODE, nodeName="node-1"),
    *(
        Attempt(name, act, REFUSED, REFUSED, NODE)
        for name, act in {
            "a node outside": lambda t: t.create_pod(nodeName="node-3"),
            "a node that does not exist": lambda t: t.create_pod(nodeName="none"),
            "a node outside of a pod that pins itself": lambda t: t.annotated_pod(
                {names.CLASS_KEY: WEST}, **SELF_PINNED, nodeName="node-3"
            ),
            "a fake mirror pod outside": lambda t: t.annotated_pod(MIRROR, nodeName="node-3"),
        }.items()
    ),
    Attempt(
        "a fake mirror pod of no node",
        lambda t: t.annotated_pod(MIRROR),
        REFUSED,
        REFUSED,
        "must set spec.nodeName if mirror pod annotation is set",
    ),
]


def bound_by_the_older_resource(tenant: HostileTenant) -> None:
    body = {"metadata": {"name": "waiting"}, "target": {"kind": "Node", "name": "node-3"}}
    tenant.api.create(f"{namespace_path(tenant.namespace)}/bindings", body)


def replaced(tenant: HostileTenant) -> None:
    found = tenant.api.get(tenant.pod_path("waiting"))
    del found["metadata"]["annotations"][names.CLASS_KEY]
    tenant.api.request("PUT", tenant.pod_path("waiting"), found)


def annotate(*subresource: str, value: str | None = EAST, kind: str = "merge-patch+json") -> Any:
    body = {"metadata": {"annotations": {names.CLASS_KEY: value}}}
    return lambda t: void(t.patch(t.pod_path("waiting", *subresource), body, kind))


def void(_: object) -> None:
    """An attempt that makes no pod."""


def apply_annotation(tenant: HostileTenant) -> None:
    head = {"apiVersion": "v1", "kind": "Pod"}
    metadata = {"name": "waiting", "annotations": FORGED}
    tenant.apply(tenant.pod_path("waiting"), {**head, "metadata": metadata})


def patch_pod(body: object, *subresource: str, kind: str = "merge-patch+json") -> Any:
    return lambda t: void(t.patch(t.pod_path("waiting", *subresource), body, kind))


ADMITTED_PODS: Final = [
    *(
        Attempt(name, act, REFUSED, REFUSED, BINDING)
        for name, act in {
            "a binding outside": lambda t: t.bind("waiting", "node-3"),
            "a binding inside": lambda t: t.bind("waiting", "node-1"),
            "a binding as a dry run": lambda t: t.bind("waiting", "node-3", "?dryRun=All"),
            "a binding by the older resource": bound_by_the_older_resource,
        }.items()
    ),
    *(
        Attempt(name, act, REFUSED, REFUSED, LEAVE)
        for name, act in {
            "another class by merge patch": annotate(),
            "another class by strategic merge patch": annotate(kind=STRATEGIC),
            "another class by JSON patch": patch_pod(
                [{"op": "replace", "path": f"/metadata/annotations/{KEY}", "value": EAST}],
                kind=JSON,
            ),
            "another class by server-side apply": apply_annotation,
            "another class by the status": annotate("status"),
            "no class by merge patch": annotate(value=None),
            "no class by the status": annotate("status", value=None),
            "no class by replacement": replaced,
            "no annotations at all": patch_pod({"metadata": {"annotations": None}}),
        }.items()
    ),
    Attempt("another class by a resize", annotate("resize", kind=STRATEGIC), NO_EFFECT, NO_EFFECT),
    Attempt(
        "another class by a debug container",
        annotate("ephemeralcontainers", kind=STRATEGIC),
        NO_EFFECT,
        NO_EFFECT,
    ),
    *(
        Attempt(name, patch_pod({"spec": spec}), REFUSED, REFUSED, "may not change fields")
        for name, spec in {
            "another scheduler": {"schedulerName": "default-scheduler"},
            "a node": {"nodeName": "node-3"},
        }.items()
    ),
    Attempt(
        "a nominated node",
        patch_pod({"status": {"nominatedNodeName": "node-3"}}, "status"),
        NO_EFFECT,
        NO_EFFECT,
    ),
]


def marks(value: str | None, *subresource: str, kind: str = "merge-patch+json") -> Any:
    return lambda t: t.patch_namespace({"labels": {names.ENFORCED: value}}, *subresource, kind=kind)


def origin(**values: str | None) -> Any:
    keys = {"origin": names.INHERITED_FROM, "value": names.INHERITED_CLASS}
    changes = {keys[name]: value for name, value in values.items()}
    return lambda t: t.patch_namespace({"annotations": changes})


def both(label: str | None, *subresource: str) -> Any:
    changes = {names.CLASS_KEY: label, names.ENFORCED: None}
    return lambda t: t.patch_namespace({"labels": changes}, *subresource)


def remove_by_json_patch(tenant: HostileTenant) -> None:
    path = f"/metadata/labels/{names.ENFORCED.replace('/', '~1')}"
    tenant.patch(namespace_path(tenant.namespace), [{"op": "remove", "path": path}], JSON)


def apply_marks(tenant: HostileTenant) -> None:
    head = {"apiVersion": "v1", "kind": "Namespace"}
    forged = {names.ENFORCED: "false", names.CLASS_KEY: EAST}
    body = {**head, "metadata": {"name": tenant.namespace, "labels": forged}}
    tenant.apply(namespace_path(tenant.namespace), body)


def owned_by(field: str | None, **forged: str) -> Any:
    def act(tenant: HostileTenant) -> None:
        found = owners(tenant, getattr(tenant, field)) if field else []
        tenant.patch_namespace({"ownerReferences": [{**owner, **forged} for owner in found]})

    return act


def everything_at_once(tenant: HostileTenant) -> None:
    tenant.replace_namespace(labels={}, annotations={}, ownerReferences=owners(tenant, tenant.free))


OWN_NAMESPACE: Final = [
    *(
        Attempt(name, act, NO_EFFECT, REFUSED, PROTECTED)
        for name, act in {
            "no protection": marks(None),
            "protection switched off": marks("false"),
            "no protection by strategic merge patch": marks(None, kind=STRATEGIC),
            "no protection by JSON patch": remove_by_json_patch,
            "no protection by server-side apply": apply_marks,
            "no protection and no class": both(None),
            "no protection and another class": both(EAST),
            "no labels and annotations": lambda t: t.replace_namespace(labels={}, annotations={}),
            "no origin": origin(origin=None, value=None),
            "another origin": origin(origin="gone", value=EAST),
            "another inherited class": origin(value=EAST),
        }.items()
    ),
    *(
        Attempt(name, act, REFUSED, REFUSED, PROTECTED)
        for name, act in {
            "no protection by the status": marks(None, "status"),
            "no protection and no class by the status": both(None, "status"),
            "no labels by finalize": lambda t: t.replace_namespace("finalize", labels={}),
        }.items()
    ),
    *(
        Attempt(name, act, REFUSED, REFUSED, OWNERS)
        for name, act in {
            "no owner": owned_by(None),
            "an owner without a class": owned_by("free"),
            "another tenant as owner": owned_by("other"),
            "an owner of a false uid": owned_by("parent", uid="none"),
            "its owner in another version": owned_by("parent", apiVersion="example.com/v1"),
            "everything at once": everything_at_once,
        }.items()
    ),
    *(
        Attempt(name, act, NO_EFFECT, NO_EFFECT)
        for name, act in {
            "no class": lambda t: t.patch_namespace({"labels": {names.CLASS_KEY: None}}),
            "another class": lambda t: t.patch_namespace({"labels": FORGED}),
            "a class by the status": lambda t: t.patch_namespace({"labels": FORGED}, "status"),
            "a wish": lambda t: t.patch_namespace({"annotations": {names.REQUESTED_CLASS: EAST}}),
            "a system namespace's name": lambda t: t.patch_namespace(
                {"labels": {names.NAMESPACE_NAME: "kube-system"}}
            ),
        }.items()
    ),
]


def below_free(tenant: HostileTenant) -> None:
    name = unique(tenant.namespace)
    tenant.create_namespace(name, ownerReferences=owners(tenant, tenant.free))


def below_other(tenant: HostileTenant) -> None:
    name = unique(tenant.namespace)
    tenant.create_namespace(name, ownerReferences=owners(tenant, tenant.other))


FOREIGN_NAMESPACES: Final = [
    Attempt(name, act, REFUSED, REFUSED, "another tenant than its name says|" + WAIT)
    for name, act in {
        "a child owned by a namespace without a class": below_free,
        "a child owned by another tenant": below_other,
    }.items()
]


def forged_owner(tenant: HostileTenant) -> list[Json]:
    """It names the parent, with the uid of a namespace that has no class."""
    free = owner_reference(tenant.tenants.get(tenant.free))
    return [{**free, "name": tenant.parent}]


NEW_NAMESPACES: Final[dict[str, Any]] = {
    "a child": {},
    "a child that claims to be free": {"labels": {names.ENFORCED: "false", names.CLASS_KEY: EAST}},
    "a child with another origin": {
        "annotations": {names.INHERITED_FROM: "gone", names.INHERITED_CLASS: EAST}
    },
    "a child of a false owner": {"ownerReferences": forged_owner},
    "a child without a name yet that claims one nobody guards": {
        "generateName": lambda tenant: f"{tenant.namespace}-",
        "labels": {"kubernetes.io/metadata.name": "kube-system"},
    },
}
