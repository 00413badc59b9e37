"""Reading a cluster that answers badly."""

from dataclasses import replace

import pytest

from schedclass.cli.gather import Connection, Gathering
from schedclass.cli.problems import CliError
from schedclass.domain import names
from schedclass.domain.insight.snapshot import Part, Snapshot
from schedclass.kube.credentials import default_source
from schedclass.kube.errors import ApiError, Gone
from tests.stubapi import Json, StubApi, failure, page, stub_api, stub_client

PODS = "/api/v1/pods"
OWN_PODS = "/api/v1/namespaces/shop/pods"
CLASSES = f"/apis/{names.API_VERSION}/{names.PLURAL}"
TENANTS = f"/apis/{names.TENANT_API_VERSION}/tenants"
GONE = failure(410, "Expired", "the continue token is too old")
FORBIDDEN = failure(403, "Forbidden", "no")


def pod(name: str) -> Json:
    metadata = {"name": name, "namespace": "shop", "uid": f"uid-{name}"}
    return {"metadata": metadata, "spec": {"containers": []}}


async def gather(stub: StubApi, *parts: Part) -> Snapshot:
    async with stub_client(stub) as client:
        reached = Connection(default_source({}), "shop")
        snapshot = await Gathering(client, reached, parts).run()
    return replace(snapshot, origin="")


async def test_a_list_that_breaks_between_pages_is_read_anew_and_nothing_counts_twice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with stub_api() as stub:
        stub.script(
            "GET", PODS, page([pod("a")], "1", "more"), GONE, page([pod("a"), pod("b")], "2")
        )
        snapshot = await gather(stub, Part.PODS)
    assert [record.pod.name for record in snapshot.pods] == ["a", "b"]
    assert snapshot.knows(Part.PODS)
    assert capsys.readouterr().err == ""


async def test_a_list_that_always_breaks_is_an_error_not_a_short_list() -> None:
    async with stub_api() as stub:
        stub.script("GET", PODS, *[page([pod("a")], "1", "more"), GONE] * 3)
        with pytest.raises(Gone):
            await gather(stub, Part.PODS)


async def test_a_user_of_one_namespace_sees_its_pods_and_is_told_so() -> None:
    async with stub_api() as stub:
        stub.script("GET", PODS, FORBIDDEN)
        stub.script("GET", OWN_PODS, page([pod("a")], "1"))
        snapshot = await gather(stub, Part.PODS)
    assert [record.pod.name for record in snapshot.pods] == ["a"]
    assert snapshot.unknown[Part.PODS] == (
        "not allowed to list pods of all namespaces; only those in shop"
    )


@pytest.mark.parametrize(
    ("path", "part", "known"), [(CLASSES, Part.CLASSES, False), (TENANTS, Part.TENANTS, True)]
)
async def test_an_api_that_is_not_served_is_unknown_for_classes_and_none_for_tenants(
    path: str, part: Part, known: bool
) -> None:
    async with stub_api() as stub:
        stub.script("GET", path, failure(404, "NotFound", "the server could not find it"))
        snapshot = await gather(stub, part)
    assert snapshot.knows(part) is known


@pytest.mark.parametrize("code", [401, 429, 500, 503])
async def test_other_refusals_are_errors(code: int) -> None:
    async with stub_api() as stub:
        stub.script("GET", PODS, failure(code, "Refused", "no"))
        with pytest.raises(ApiError):
            await gather(stub, Part.PODS)


async def test_an_object_that_cannot_be_read_is_told_in_one_sentence() -> None:
    deployments = "/apis/apps/v1/deployments"
    metadata = {"name": "web", "namespace": "shop", "uid": "u"}
    async with stub_api() as stub:
        stub.script("GET", deployments, page([{"metadata": metadata, "spec": {}}], "1"))
        for plural in ("statefulsets", "replicasets", "daemonsets"):
            stub.script("GET", f"/apis/apps/v1/{plural}", page([], "1"))
        stub.script("GET", "/apis/batch/v1/jobs", page([], "1"))
        with pytest.raises(CliError, match="sends what cannot be read: Deployment shop/web"):
            await gather(stub, Part.WORKLOADS)


async def test_a_note_about_an_object_stands_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = "a\x1b[2J\nb"
    async with stub_api() as stub:
        stub.script("GET", PODS, page([pod(name), pod(name)], "1"))
        await gather(stub, Part.PODS)
    said = capsys.readouterr().err
    assert said.startswith("note: Pod shop/a\\x1b[2J\\nb is given more than once")
    assert said.count("\n") == 1
