"""A control plane with the chart installed and no process of the operator behind it."""

from collections.abc import Iterator
from typing import Any

import pytest

from controlplane import Cluster
from controlplane.components import ROOMY
from controlplane.helm import Release
from controlplane.paths import CHART
from controlplane.ports import allocate

CLASSES = "/apis/cozystack.io/v1alpha1/schedulingclasses"
NAMESPACE = "sched-x"
VALUES: dict[str, Any] = {"deployments": {"enabled": False}, "cleanup": {"enabled": False}}


@pytest.fixture(scope="session")
def chart_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("chart"), env=ROOMY) as cluster:
        # Before the chart: then a new tenant waits for the webhook, and nobody is behind it.
        for name in ("cozy-cilium", "tenant-a"):
            cluster.create_namespace(name)
        yield cluster


@pytest.fixture(scope="session")
def values(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Values with a webhook URL at which nobody answers."""
    (port,) = allocate(["nobody"], tmp_path_factory.mktemp("nobody")).values()
    return {**VALUES, "webhook": {"url": f"https://127.0.0.1:{port}"}}


@pytest.fixture(scope="session")
def release(chart_cluster: Cluster, values: dict[str, Any]) -> Release:
    return Release(chart_cluster, CHART, "rel", NAMESPACE)


@pytest.fixture
def installed(
    chart_cluster: Cluster, release: Release, values: dict[str, Any]
) -> Iterator[Cluster]:
    """The cluster with the chart as `values` say, and no class."""
    release.install(values)
    yield chart_cluster
    for item in chart_cluster.admin.get(CLASSES)["items"]:
        path = f"{CLASSES}/{item['metadata']['name']}"
        metadata = {"finalizers": None, "labels": None}
        chart_cluster.admin.merge_patch(path, {"metadata": metadata})
        if "deletionTimestamp" not in item["metadata"]:
            chart_cluster.admin.delete(path)
