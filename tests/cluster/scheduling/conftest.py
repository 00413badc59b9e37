"""Tenants with workloads on the control plane of the session, and nodes to change."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from controlplane import Cluster, Installation
from tests.cluster.scheduling.volumes import Volumes
from tests.cluster.scheduling.workloads import Nodes, Workloads
from tests.cluster.tenants import Tenants

Tenant = Callable[..., Workloads]


@pytest.fixture
def nodes(operator: Installation) -> Iterator[Nodes]:
    """Changes nodes; everything is as before afterwards."""
    changed = Nodes(operator.cluster)
    yield changed
    changed.restore()


@pytest.fixture
def tenant(operator: Installation, tenants: Tenants, nodes: Nodes) -> Iterator[Tenant]:
    """Makes a namespace with a class of its own (or an existing one) for workloads."""
    del nodes  # only so that pods go before nodes change back
    made: list[Workloads] = []

    def make(class_name: str | None = None, **spec: Any) -> Workloads:
        if class_name is None and spec:
            class_name = tenants.create_class(**spec)
        namespace = tenants.create(wants=class_name, with_account=True)
        made.append(Workloads(operator.cluster, namespace))
        return made[-1]

    yield make
    for workloads in made:
        workloads.remove_all()


@pytest.fixture
def volumes(cluster: Cluster) -> Iterator[Volumes]:
    made = Volumes(cluster)
    yield made
    made.remove()


@pytest.fixture
def made_volumes(cluster: Cluster) -> Iterator[Volumes]:
    """Volumes that are made when a consumer has a node, by whoever calls `provision`."""
    made = Volumes(cluster, "example.org/by-hand")
    yield made
    made.remove()
