"""The status of a class while its namespaces come by the dozen."""

import math
import time

from controlplane import Api, Installation, eventually
from schedclass.domain import names
from tests.cluster.objects import class_path
from tests.cluster.tenants import Tenants

NAMESPACES = 60


def test_a_status_is_written_at_most_once_a_second_and_ends_right(
    api: Api, operator: Installation, tenants: Tenants
) -> None:
    made = tenants.create_class()
    eventually("it has a status", lambda: "conditions" in (api.get(class_path(made))["status"]))
    mark = operator.cluster.audit.mark()
    began = time.monotonic()
    for _ in range(NAMESPACES):
        tenants.create(wants=made)
    eventually(
        "all are counted",
        lambda: api.get(class_path(made))["status"]["boundNamespaces"] == NAMESPACES,
    )
    seconds = time.monotonic() - began
    writes = operator.cluster.audit.count(
        mark, user=operator.user("controller"), resource=f"{names.PLURAL}/status", name=made
    )
    assert 1 <= writes <= math.ceil(seconds) + 1
