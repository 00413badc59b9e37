"""What earlier tests may have left running on the control plane that a session shares."""

from __future__ import annotations

import contextlib

from controlplane import Cluster, eventually

_KINDS = (
    ("/apis/apps/v1", "deployments"),
    ("/apis/apps/v1", "statefulsets"),
    ("/apis/apps/v1", "daemonsets"),
    ("/apis/apps/v1", "replicasets"),
    ("/apis/batch/v1", "jobs"),
    ("/api/v1", "pods"),
)
_AT_ONCE = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}


def remove_workloads(cluster: Cluster) -> None:
    """Leaves no workload and no pod, so that what is said of nodes is the same in every order.

    Namespaces of earlier tests are on their way out, and their pods hold room until then.

    Raises:
        NotInTimeError: One does not go.
    """

    def none_left() -> bool:
        with contextlib.suppress(OSError):  # hundreds of pods may take longer than one request may
            return not _left(cluster)
        return False

    eventually("no workload is left", none_left, seconds=240, interval=0.2)


def _left(cluster: Cluster) -> int:
    """Asks for the removal of all that is there, and returns how much that was."""
    count = 0
    for api, plural in _KINDS:
        items = cluster.admin.get(f"{api}/{plural}")["items"]
        count += len(items)
        for namespace in {item["metadata"]["namespace"] for item in items}:
            path = f"{api}/namespaces/{namespace}/{plural}"
            cluster.admin.request("DELETE", path, _AT_ONCE)
    return count
