"""What is compared: namespaces on one control plane, and the pod that is created in each.

The pod names a scheduler that nobody runs and has a scheduling gate: nothing but the admission of
its namespace differs, and nobody works on it after its creation.
"""

from __future__ import annotations

import http.client
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from controlplane import ApiError, Cluster, eventually
from schedclass.domain import names

CLASS = "bench-west"


@dataclass(frozen=True)
class Subject:
    """One namespace of the comparison.

    Attributes:
        key: its name in results.
        namespace: where its pods are created.
        title: its name in tables.
        meaning: what happens to its pods.
        pinned: whether they have to carry schedulerName and annotation afterwards.
        reviews: how many reviews our webhook answers for each.
    """

    key: str
    namespace: str
    title: str
    meaning: str
    pinned: bool
    reviews: int


UNPINNED = Subject(
    "unpinned", "bench-unpinned", "unpinned", "excluded: neither webhook nor policy", False, 0
)
WEBHOOK = Subject(
    "webhook",
    "bench-webhook",
    "webhook",
    "pinned by our webhook, guarded by the chart's validating policies",
    True,
    1,
)
BARE_POLICY = Subject(
    "bare-policy",
    "bench-bare-policy",
    "bare policy",
    "pinned by a MutatingAdmissionPolicy that sets the same fields in the API server, unguarded",
    True,
    0,
)
POLICY = Subject(
    "policy", "bench-policy", "policy", "pinned by that policy, guarded like ours", True, 0
)
CLASSLESS = Subject(
    "classless", "bench-classless", "no class", "reviewed by our webhook, left as it is", False, 1
)
SUBJECTS = (UNPINNED, WEBHOOK, POLICY, BARE_POLICY, CLASSLESS)

_NAMESPACE_NAME = "kubernetes.io/metadata.name"

VALUES: Mapping[str, Any] = {
    # The chart's default, and those in which nothing of ours has a part.
    "excludedNamespaces": [
        *("kube-*", "cozy-*", "default"),
        *(UNPINNED.namespace, BARE_POLICY.namespace),
    ],
    "webhook": {
        "namespaceSelector": [
            {"key": _NAMESPACE_NAME, "operator": "NotIn", "values": [POLICY.namespace]}
        ]
    },
}
"""Values of the chart by which each namespace is treated as its subject says."""

UNGUARDED = (
    UNPINNED,
    replace(WEBHOOK, meaning="pinned by our webhook; the chart's policies are off"),
    BARE_POLICY,
    CLASSLESS,
)
"""What is left to compare with the webhook alone: nobody's pods are guarded."""

_UNSERVED_SCHEDULER = "bench-nobody"


def _container(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "image": f"registry.example/tenants/{name}:1.2.3",
        "args": ["--listen=:8080", "--log-level=info", f"--name={name}"],
        "env": [{"name": f"SETTING_{number}", "value": "x" * 20} for number in range(10)],
        "ports": [{"containerPort": 8080, "name": f"{name}-http"}],
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": "256Mi"},
        },
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8080}, "periodSeconds": 5},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/config", "readOnly": True}],
        "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True},
    }


POD: Mapping[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "generateName": "app-7d9c5b8f6-",
        "labels": {
            "app.kubernetes.io/name": "app",
            "app.kubernetes.io/instance": "bench",
            "pod-template-hash": "7d9c5b8f6",
        },
        "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
    },
    "spec": {
        "schedulerName": _UNSERVED_SCHEDULER,
        "schedulingGates": [{"name": "bench.invalid/never-scheduled"}],
        "containers": [_container("app"), _container("proxy")],
        "volumes": [{"name": "config", "configMap": {"name": "app"}}],
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000},
    },
}
"""A usual pod of two containers; its review has about 8 KB."""

_REGISTRATION = "/apis/admissionregistration.k8s.io/v1"

_POLICY: Mapping[str, Any] = {
    "metadata": {"name": "bench"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods"],
                }
            ]
        },
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "mutations": [
            {
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {
                    "expression": f"""
                        Object{{
                          metadata: Object.metadata{{
                            annotations: {{
                              "{names.CLASS_KEY}":
                                namespaceObject.metadata.labels["{names.CLASS_KEY}"]
                            }}
                          }},
                          spec: Object.spec{{schedulerName: "{names.SCHEDULER_NAME}"}}
                        }}"""
                },
            }
        ],
    },
}

_BINDING: Mapping[str, Any] = {
    "metadata": {"name": "bench"},
    "spec": {
        "policyName": "bench",
        "matchResources": {
            "namespaceSelector": {
                "matchExpressions": [
                    {
                        "key": _NAMESPACE_NAME,
                        "operator": "In",
                        "values": [POLICY.namespace, BARE_POLICY.namespace],
                    }
                ]
            }
        },
    },
}


def create(cluster: Cluster, subjects: Sequence[Subject]) -> None:
    """Creates class, policy and namespaces, and waits until each namespace does what it should.

    Args:
        cluster: with the operator on it.
        subjects: whose namespaces.

    Raises:
        NotInTimeError: one does not.
    """
    admin = cluster.admin
    admin.create(
        f"/apis/{names.API_VERSION}/{names.PLURAL}",
        {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {"name": CLASS},
            "spec": {"nodeSelector": {"topology.kubernetes.io/region": "west"}},
        },
    )
    admin.create(f"{_REGISTRATION}/mutatingadmissionpolicies", _POLICY)
    admin.create(f"{_REGISTRATION}/mutatingadmissionpolicybindings", _BINDING)
    for subject in subjects:
        labels = {names.CLASS_KEY: CLASS} if subject.pinned else {}
        cluster.create_namespace(subject.namespace, labels=labels)
    for subject in {WEBHOOK, POLICY} & {*subjects}:
        eventually(
            f"{subject.namespace} is guarded",
            lambda subject=subject: _is_guarded(cluster, subject),  # type: ignore[misc]
        )
    for subject in subjects:
        eventually(
            f"pods of {subject.namespace} are {'' if subject.pinned else 'not '}pinned",
            lambda subject=subject: _is_served(cluster, subject),  # type: ignore[misc]
        )


def _is_guarded(cluster: Cluster, subject: Subject) -> bool:
    labels = cluster.admin.get(f"/api/v1/namespaces/{subject.namespace}")["metadata"]["labels"]
    return names.ENFORCED in labels


def _is_served(cluster: Cluster, subject: Subject) -> bool:
    path = f"/api/v1/namespaces/{subject.namespace}/pods?dryRun=All"
    try:
        return is_right(subject, cluster.admin.create(path, POD))
    except ApiError as error:
        if error.status != http.client.FORBIDDEN:
            raise
        return False  # guarded already, and the policy that pins is not in effect yet


def is_right(subject: Subject, pod: Mapping[str, Any]) -> bool:
    """Tells whether a pod carries both fields of its namespace's class, or neither."""
    found = (
        pod["spec"]["schedulerName"],
        pod["metadata"].get("annotations", {}).get(names.CLASS_KEY),
    )
    wanted = (names.SCHEDULER_NAME, CLASS) if subject.pinned else (_UNSERVED_SCHEDULER, None)
    return found == wanted
