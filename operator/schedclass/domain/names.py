"""Every name that is part of the contract with users, each defined once."""

from typing import Final

GROUP: Final = "cozystack.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "SchedulingClass"
PLURAL: Final = "schedulingclasses"

TENANT_API_VERSION: Final = "apps.cozystack.io/v1alpha1"
"""Of the kind Tenant, served by an aggregated API in Cozystack, absent elsewhere."""

CLI_API_VERSION: Final = f"cli.{GROUP}/v1alpha1"
"""Of the documents that the command line prints with `-o json` and `-o yaml`."""

SCHEDULER_NAME: Final = "cozystack-scheduler"
DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"

PREFIX: Final = "scheduler.cozystack.io"

CLASS_KEY: Final = f"{PREFIX}/scheduling-class"
"""Label of a namespace, annotation of a pod: the class that applies."""

INHERITED_FROM: Final = f"{PREFIX}/inherited-from"
"""Annotation of a namespace: name of the ancestor whose class applies."""

REQUESTED_CLASS: Final = f"{PREFIX}/requested-scheduling-class"
"""Annotation of a namespace: its own wish while an ancestor overrides it."""

INHERITED_CLASS: Final = f"{PREFIX}/inherited-scheduling-class"
"""Annotation of a namespace: the value that was written into the label as inherited. A label that
differs from it was written by somebody else since, so it is a wish (see domain/inheritance.py)."""

INHERITED_FROM_UID: Final = f"{PREFIX}/inherited-from-uid"
"""Annotation of a namespace: uid of that ancestor, so that a re-created one is told apart."""

ENFORCED: Final = f"{PREFIX}/enforced"
"""Label of a namespace: "true" while the effective class exists. Policies select on it."""

IN_USE: Final = f"{PREFIX}/in-use"
"""Label of a SchedulingClass, "true" while namespaces are bound to it; the policy selects on it."""

IN_USE_FINALIZER: Final = f"{PREFIX}/in-use"
"""Finalizer of a SchedulingClass while namespaces are bound to it."""

MIRROR_POD: Final = "kubernetes.io/config.mirror"
"""Annotation of a mirror pod, written by the kubelet."""

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""Annotation of a claim: the node for which kube-scheduler has its volume made."""

NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""Label that the API server keeps on each namespace."""

TENANT_PREFIX: Final = "tenant-"
TENANT_ROOT: Final = "tenant-root"

SYSTEM_NAMESPACES: Final = ("kube-*", "cozy-*", "default")
"""Patterns of namespaces that are never labelled and never pinned (the operator's own is added)."""

CLUSTER_NAMESPACES: Final = ("kube-system", "kube-public", "kube-node-lease")
"""Namespaces that the cluster lives on: the chart excludes them, whatever its values say."""

INSTALL_NAMESPACE: Final = "cozy-schedclass"
"""The operator's own namespace where it is installed as the documentation has it."""

POD_WEBHOOK: Final = f"pods.{PREFIX}"
"""Name of the webhook for pods within the chart's MutatingWebhookConfiguration."""

HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
REGION_LABEL: Final = "topology.kubernetes.io/region"

LINEAGE_LABELS: Final = (
    "apps.cozystack.io/application.group",
    "apps.cozystack.io/application.kind",
    "apps.cozystack.io/application.name",
)
"""Default `defaultLabelSelectorKeys`: what a nil labelSelector of a class is filled from."""

FIELD_MANAGER: Final = "schedclass"
