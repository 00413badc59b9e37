"""The Tenant API, served in either of two ways."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from controlplane import Api, ApiError, Cluster, Installation, eventually
from schedclass.domain import names
from tests.cluster.objects import Json, namespace_path
from tests.cluster.tenants import Tenants, unique
from tests.cluster.tenants_api.standin import StandIn

GROUP, VERSION = names.TENANT_API_VERSION.split("/")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD = f"{CRDS}/tenants.{GROUP}"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
API_SERVICE = f"{API_SERVICES}/{VERSION}.{GROUP}"
TENANTS = f"/apis/{names.TENANT_API_VERSION}/tenants"

NOTICED_SECONDS = 30
"""Within which the operator notices that the API is there: it looks every ten seconds or so."""


def tenants_path(namespace: str) -> str:
    return f"/apis/{names.TENANT_API_VERSION}/namespaces/{namespace}/tenants"


def tenant(name: str, wants: Any = None, *, status: Json | None = None) -> Json:
    spec = {} if wants is None else {"schedulingClass": wants}
    made: Json = {
        "apiVersion": names.TENANT_API_VERSION,
        "kind": "Tenant",
        "metadata": {"name": name},
        "spec": spec,
    }
    return made if status is None else {**made, "status": status}


def is_served(api: Api) -> bool:
    """Whether Tenants can be listed; an APIService is unavailable for a moment when it is new."""
    try:
        return api.find(TENANTS) is not None
    except ApiError as error:
        if error.status != 503:
            raise
        return False


@pytest.fixture(scope="module")
def served_by_crd(session_cluster: Cluster) -> Iterator[None]:
    """A plain CRD of the Tenant's group, version and kind."""
    api = session_cluster.admin
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = {
        "metadata": {"name": f"tenants.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "tenants", "singular": "tenant", "kind": "Tenant"},
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"spec": anything, "status": anything},
                        }
                    },
                }
            ],
        },
    }
    api.create(CRDS, definition)
    try:
        eventually("Tenants are served", lambda: is_served(api))
        yield
    finally:  # whatever failed, the API server of the other files does not know Tenants
        api.delete(CRD)
        eventually("the CRD is gone", lambda: api.find(CRD) is None)
        eventually("its APIService is gone", lambda: api.find(API_SERVICE) is None)


@pytest.fixture
def served_by_aggregation(cluster: Cluster, operator: Installation) -> Iterator[StandIn]:
    """An APIService, and behind it a server of ours that can fail in every way.

    The API server reaches it through a Service of type ExternalName, as nothing routes others here.
    """
    assert operator  # the API is no precondition of it
    api = cluster.admin
    port = cluster.port("tenants-api")
    pair_folder = cluster.folder / "tenants-api"
    namespace = cluster.create_namespace()
    service = {
        "metadata": {"name": "api"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    api.create(f"{namespace_path(namespace)}/services", service)
    registration = {
        "metadata": {"name": f"{VERSION}.{GROUP}"},
        "spec": {
            **{"group": GROUP, "version": VERSION},
            **{"groupPriorityMinimum": 1000, "versionPriority": 15},
            "insecureSkipTLSVerify": True,
            "service": {"namespace": namespace, "name": "api", "port": port},
        },
    }
    with StandIn(port, pair_folder) as server:
        api.create(API_SERVICES, registration)
        try:
            yield server
        finally:
            api.delete(API_SERVICE)
            eventually("the APIService is gone", lambda: api.find(API_SERVICE) is None)
            api.delete(namespace_path(namespace))


@pytest.fixture
def parent(tenants: Tenants) -> str:
    """A tenant whose children are named after it."""
    return tenants.create(f"tenant-{unique('t').replace('-', '')}", with_account=True)


@pytest.fixture
def values(api: Api) -> Callable[..., Json]:
    """Writes a Tenant with a class: `values(namespace, name, class, status=None)`."""

    def write(namespace: str, name: str, wants: Any = None, *, status: Json | None = None) -> Json:
        path = f"{tenants_path(namespace)}/{name}"
        body = tenant(name, wants, status=status)
        found = api.find(path)
        if found is None:
            return api.create(tenants_path(namespace), body)
        version = found["metadata"]["resourceVersion"]
        return api.request(
            "PUT", path, {**body, "metadata": {"name": name, "resourceVersion": version}}
        )

    return write
