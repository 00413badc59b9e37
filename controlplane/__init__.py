"""A real Kubernetes control plane for the demo and the tests: built once, started in seconds."""

from controlplane.api import Api, ApiError
from controlplane.cluster import Cluster
from controlplane.helm import HelmError
from controlplane.installation import Installation
from controlplane.kubectl import Kubectl, KubectlError
from controlplane.processes import ProcessError
from controlplane.waiting import NotInTimeError, eventually

__all__ = [
    "Api",
    "ApiError",
    "Cluster",
    "HelmError",
    "Installation",
    "Kubectl",
    "KubectlError",
    "NotInTimeError",
    "ProcessError",
    "eventually",
]
