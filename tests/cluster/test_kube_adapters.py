"""Client, cache, election and Events on a real API server, where the stub has no say."""

import asyncio
import contextlib
import json
import urllib.request
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from controlplane import Cluster
from schedclass.domain.findings import Finding, Reason
from schedclass.kube import errors
from schedclass.kube.client import KubeClient, resource_path
from schedclass.kube.credentials import kubeconfig
from schedclass.kube.events import EventRecorder, ObjectRef
from schedclass.kube.lease import LeaseElector, LeaseTimings
from schedclass.kube.reflector import Reflector, Timings
from schedclass.kube.store import Store
from tests.stubapi import eventually

QUICK = Timings(first_delay=0.05, longest_delay=0.5)


def data_of(raw: Mapping[str, Any]) -> dict[str, str]:
    return dict(raw.get("data") or {})


def labels_of(raw: Mapping[str, Any]) -> dict[str, str]:
    assert "data" not in raw, "asked for metadata only"
    return dict(raw["metadata"].get("labels") or {})


@pytest.fixture
def maps(namespace: str) -> str:
    """Path of the ConfigMaps of the test's namespace."""
    return resource_path("v1", "configmaps", namespace=namespace)


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"of": "test"}}, "data": data}


@asynccontextmanager
async def running(reflector: Reflector[Any]) -> AsyncIterator[None]:
    task = asyncio.create_task(reflector.run())
    try:
        async with asyncio.timeout(20):
            await reflector.store.wait_synced()
        yield
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def compact(cluster: Cluster, revision: str) -> None:
    """Make etcd forget everything before a revision, as it does every few minutes by itself."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{cluster.port('etcd')}/v3/kv/compaction",
        data=json.dumps({"revision": revision, "physical": True}).encode(),
    )

    def send() -> None:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            answer.read()

    await asyncio.to_thread(send)


async def test_a_store_follows_a_collection_by_metadata_alone(kube: KubeClient, maps: str) -> None:
    for number in range(12):
        await kube.create(maps, config_map(f"m-{number}", k="v"))
    store = Store(labels_of)
    reflector = Reflector(
        kube,
        maps,
        store,
        metadata_only=True,
        params={"labelSelector": "of=test"},
        page_size=5,
        resync_seconds=600,
        timings=QUICK,
    )
    async with running(reflector):
        assert len(store) == 12
        await kube.create(maps, config_map("new"))
        await kube.merge_patch(f"{maps}/m-1", {"metadata": {"labels": {"x": "y"}}})
        await kube.delete(f"{maps}/m-2")
        await kube.merge_patch(f"{maps}/m-3", {"metadata": {"labels": {"of": "other"}}})
        await eventually(lambda: len(store) == 11 and any("x" in each for each in store.values()))
        keys = {key.partition("/")[2] for key in store}
        assert "new" in keys
        assert not keys & {"m-2", "m-3"}
        assert reflector.errors == 0


async def test_the_answer_to_an_own_write_is_known_at_once_and_never_taken_back(
    kube: KubeClient, maps: str
) -> None:
    store = Store(data_of)
    async with running(Reflector(kube, maps, store, resync_seconds=600, timings=QUICK)):
        created = await kube.create(maps, config_map("m", n="0"))
        store.apply("ADDED", created)
        key = f"{created['metadata']['namespace']}/m"
        seen: list[int] = []
        store.on_change(lambda _key, _old, new: seen.append(int(new["n"]) if new else -1))
        for number in range(1, 30):
            store.apply(
                "MODIFIED", await kube.merge_patch(f"{maps}/m", {"data": {"n": str(number)}})
            )
            assert store.get(key) == {"n": str(number)}
        await kube.delete(f"{maps}/m")
        await eventually(lambda: key not in store)
        assert seen == [*range(1, 30), -1]


async def test_a_patch_bound_to_a_version_fails_when_somebody_else_wrote(
    kube: KubeClient, maps: str
) -> None:
    old = await kube.create(maps, config_map("m"))
    version = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}}
    await kube.merge_patch(f"{maps}/m", {**version, "data": {"a": "1"}})
    with pytest.raises(errors.Conflict):
        await kube.merge_patch(f"{maps}/m", {**version, "data": {"a": "2"}})
    with pytest.raises(errors.Conflict):
        await kube.replace(f"{maps}/m", old)
    assert (await kube.get(f"{maps}/m"))["data"] == {"a": "1"}


async def test_refusals_of_the_real_server_are_told_apart(kube: KubeClient, maps: str) -> None:
    assert await kube.find(f"{maps}/none") is None
    with pytest.raises(errors.NotFound) as unserved:
        await kube.find("/apis/apps.cozystack.io/v1alpha1/tenants")
    assert not unserved.value.object_absent
    await kube.create(maps, config_map("m"))
    with pytest.raises(errors.Conflict) as exists:
        await kube.create(maps, config_map("m"))
    assert exists.value.reason == "AlreadyExists"
    with pytest.raises(errors.ApiError) as invalid:
        await kube.create(maps, config_map("Not A Name"))
    assert invalid.value.status == 422
    with pytest.raises(errors.ApiError) as tested:
        await kube.json_patch(f"{maps}/m", [{"op": "test", "path": "/data", "value": 1}])
    assert tested.value.status == 422


async def test_apply_owns_only_what_it_names_and_yields_unless_forced(
    kube: KubeClient, maps: str
) -> None:
    await kube.create(maps, config_map("m", foreign="1"))
    mine = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "m"},
        "data": {"mine": "1"},
    }
    applied = await kube.apply(f"{maps}/m", mine)
    assert applied["data"] == {"foreign": "1", "mine": "1"}
    mine["data"] = {"foreign": "2"}
    with pytest.raises(errors.Conflict):
        await kube.apply(f"{maps}/m", mine)
    forced = await kube.apply(f"{maps}/m", mine, force=True)
    assert forced["data"] == {"foreign": "2"}
    assert {entry["manager"] for entry in forced["metadata"]["managedFields"]} == {"schedclass"}


async def test_a_store_outlives_a_restart_of_the_api_server_that_forgets_history(
    cluster: Cluster, kube: KubeClient, maps: str
) -> None:
    for number in range(4):
        await kube.create(maps, config_map(f"m-{number}"))
    store = Store(data_of)
    reflector = Reflector(
        kube,
        maps,
        store,
        resync_seconds=600,
        params={"labelSelector": "of=test"},
        page_size=2,
        timings=QUICK,
    )
    pages = kube.list_pages(maps, page_size=2)
    async with running(reflector), aclosing(pages):
        _, old = await anext(pages)
        await kube.delete(f"{maps}/m-0")
        last = await kube.create(maps, config_map("m-9"))
        await compact(cluster, last["metadata"]["resourceVersion"])
        await asyncio.to_thread(cluster.process("kube-apiserver").kill)
        await eventually(lambda: reflector.errors > 0)
        await asyncio.to_thread(cluster.heal)
        with pytest.raises(errors.Gone):
            await anext(pages)
        with pytest.raises(errors.Gone):
            await drain(kube.watch(maps, resource_version=old))
        await kube.create(maps, config_map("after"))
        keys = {"m-1", "m-2", "m-3", "m-9", "after"}
        await eventually(lambda: {key.partition("/")[2] for key in store} == keys)


async def test_what_cannot_be_reached_stays_known_and_turns_stale(
    cluster: Cluster, kube: KubeClient, maps: str
) -> None:
    await kube.create(maps, config_map("kept"))
    now = 0.0
    store = Store(data_of, clock=lambda: now)
    reflector = Reflector(
        kube,
        maps,
        store,
        resync_seconds=600,
        params={"labelSelector": "of=test"},
        timings=QUICK,
    )
    async with running(reflector):
        await asyncio.to_thread(cluster.process("kube-apiserver").kill)
        await eventually(lambda: reflector.errors > 0)
        assert len(store) == 1
        assert store.synced
        assert store.fresh(30)
        now = 31.0
        assert not store.fresh(30)
        await asyncio.to_thread(cluster.heal)
        await eventually(lambda: store.fresh(30))


async def drain(events: AsyncGenerator[Any]) -> None:
    async with aclosing(events):
        async for _ in events:
            pass


async def test_a_rotated_token_is_picked_up_without_a_restart(
    cluster: Cluster, kube: KubeClient, namespace: str
) -> None:
    accounts = resource_path("v1", "serviceaccounts", namespace=namespace)
    review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    await kube.create(accounts, {"metadata": {"name": "bot"}})
    config = cluster.identities.service_account_kubeconfig(namespace, "bot")
    async with await KubeClient.load(role="tests", source=kubeconfig(str(config))) as bot:
        assert (await bot.create(review, {}))["status"]["userInfo"]["username"].endswith(":bot")
        # A token is bound to the uid of its ServiceAccount.
        await kube.delete(f"{accounts}/bot")
        with contextlib.suppress(errors.Unauthorized):
            while True:
                await bot.create(review, {})
        await kube.create(accounts, {"metadata": {"name": "bot"}})
        with pytest.raises(errors.Unauthorized):
            await bot.create(review, {})
        cluster.identities.service_account_kubeconfig(namespace, "bot")
        assert (await bot.create(review, {}))["status"]["userInfo"]["username"].endswith(":bot")


async def test_of_many_candidates_one_leads_and_the_next_takes_over(
    kube: KubeClient, namespace: str
) -> None:
    leading: list[str] = []
    led: list[str] = []

    def elector(name: str) -> tuple[str, asyncio.Task[None]]:
        async def lead() -> None:
            leading.append(name)
            led.append(name)
            assert leading == [name]
            try:
                await asyncio.Event().wait()
            finally:
                leading.remove(name)

        candidate = LeaseElector(
            kube,
            namespace=namespace,
            name="race",
            identity=name,
            timings=LeaseTimings(duration=15, deadline=10, retry=0.05),
        )
        return name, asyncio.create_task(candidate.run(lead))

    tasks = dict(elector(f"candidate-{number}") for number in range(6))
    while tasks:
        await eventually(lambda: bool(leading))
        task = tasks.pop(leading[0])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert sorted(led) == [f"candidate-{number}" for number in range(6)]
    lease = await kube.get(
        resource_path("coordination.k8s.io/v1", "leases", namespace=namespace, name="race")
    )
    assert lease["spec"]["holderIdentity"] == ""
    assert lease["spec"]["leaseTransitions"] == 5


async def test_events_are_accepted_for_each_kind_of_object_and_counted(
    kube: KubeClient, namespace: str
) -> None:
    owner = ObjectRef("v1", "Namespace", namespace, "u-1", namespace=namespace)
    pod = ObjectRef("v1", "Pod", "web-0", "u-2", namespace=namespace)
    of_class = ObjectRef("cozystack.io/v1alpha1", "SchedulingClass", f"class-{namespace}", "u-3")
    finding = Finding(Reason.CLASS_NOT_FOUND, "é" * 3000)
    lost: list[int] = []
    recorder = EventRecorder(
        kube, component="schedclass-test", instance="pod-1", on_lost=lost.append
    )
    task = asyncio.create_task(recorder.run())
    for _ in range(3):
        for about in (owner, pod, of_class):
            recorder.emit(about, finding)
        await recorder.drained()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert lost == []
    for about in (owner, pod, of_class):
        path = resource_path("v1", "events", namespace=about.namespace or "default")
        query = {
            "fieldSelector": f"involvedObject.name={about.name},involvedObject.uid={about.uid}"
        }
        (event,) = (await kube.get(path, params=query))["items"]
        assert event["count"] == 3
        assert event["reason"] == "ClassNotFound"
        assert event["lastTimestamp"] >= event["firstTimestamp"]


async def test_events_for_a_namespace_that_ends_are_dropped_without_failure(
    kube: KubeClient,
) -> None:
    name = "test-ending-events"
    await kube.create(
        "/api/v1/namespaces",
        {"metadata": {"name": name}, "spec": {"finalizers": ["kubernetes", "test.io/hold"]}},
    )
    try:
        await kube.delete(f"/api/v1/namespaces/{name}")
        lost: list[int] = []
        recorder = EventRecorder(
            kube, component="schedclass-test", instance="pod-1", on_lost=lost.append
        )
        task = asyncio.create_task(recorder.run())
        recorder.emit(
            ObjectRef("v1", "Namespace", name, "u", namespace=name),
            Finding(Reason.CLASS_NOT_FOUND, "gone"),
        )
        recorder.emit(
            ObjectRef("v1", "Pod", "p", "u", namespace="test-never-was"),
            Finding(Reason.CLASS_NOT_FOUND, "gone"),
        )
        await recorder.drained()
        assert lost == []
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    finally:
        current = await kube.get(f"/api/v1/namespaces/{name}")
        current["spec"]["finalizers"] = []
        await kube.replace(f"/api/v1/namespaces/{name}/finalize", current)
