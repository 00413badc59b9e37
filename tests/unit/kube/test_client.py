"""What callers of the client learn from each kind of answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from schedclass import __version__
from schedclass.kube import credentials, errors
from schedclass.kube.client import KubeClient, resource_path
from tests.stubapi import (
    Stream,
    StubApi,
    after,
    failure,
    json_answer,
    obj,
    page,
    status_object,
    stub_api,
    stub_client,
    text_answer,
)

PATH = "/api/v1/namespaces"


@pytest.fixture
async def stub() -> AsyncIterator[StubApi]:
    async with stub_api() as api:
        yield api


@pytest.fixture
async def client(stub: StubApi) -> AsyncIterator[KubeClient]:
    async with stub_client(stub) as one:
        yield one


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (409, "Conflict", errors.Conflict),
        (410, "Expired", errors.Gone),
        (422, "Invalid", errors.ApiError),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.ApiError),
    ],
)
async def test_each_refusal_has_its_own_error(
    stub: StubApi, client: KubeClient, status: int, reason: str, kind: type[errors.ApiError]
) -> None:
    stub.script("GET", f"{PATH}/a", failure(status, reason, "no", name="a"))
    with pytest.raises(kind) as caught:
        await client.get(f"{PATH}/a")
    assert (caught.value.status, caught.value.reason, caught.value.message) == (
        status,
        reason,
        "no",
    )


async def test_only_the_api_server_saying_so_makes_an_object_absent(
    stub: StubApi, client: KubeClient
) -> None:
    stub.script("GET", f"{PATH}/a", failure(404, "NotFound", "gone", name="a", kind="namespaces"))
    stub.script("GET", f"{PATH}/b", text_answer("404 page not found", 404))
    stub.script("GET", f"{PATH}/c", failure(404, "NotFound", "no such resource"))
    absent = []
    for name in "abc":
        with pytest.raises(errors.NotFound) as caught:
            await client.get(f"{PATH}/{name}")
        absent.append(caught.value.object_absent)
    assert absent == [True, False, False]


async def test_the_wait_that_a_busy_server_asks_for_is_told(
    stub: StubApi, client: KubeClient
) -> None:
    stub.script("GET", PATH, failure(429, "TooManyRequests", "busy", retry_after=7))
    with pytest.raises(errors.TooManyRequests) as caught:
        await client.get(PATH)
    assert caught.value.retry_after == 7
    stub.script("GET", PATH, failure(429, "TooManyRequests", "busy", retryAfterSeconds=3))
    with pytest.raises(errors.TooManyRequests) as caught:
        await client.get(PATH)
    assert caught.value.retry_after == 3


@pytest.mark.parametrize("text", ["<html>proxy</html>", "", "[1]", '"text"', "\x00"])
async def test_an_answer_that_is_no_json_object_is_no_answer(
    stub: StubApi, client: KubeClient, text: str
) -> None:
    stub.script("GET", PATH, text_answer(text))
    with pytest.raises(errors.Unreachable):
        await client.get(PATH)


async def test_a_reply_that_does_not_come_is_unreachable(stub: StubApi, client: KubeClient) -> None:
    stub.script("GET", PATH, after(asyncio.Event(), json_answer({})))
    with pytest.raises(errors.Unreachable, match="timed out"):
        await client.get(PATH, timeout=0.05)


async def test_a_refused_connection_is_unreachable() -> None:
    async with stub_api() as gone:
        pass
    async with stub_client(gone) as client:
        with pytest.raises(errors.Unreachable, match=PATH):
            await client.get(PATH)


async def test_requests_name_the_role_and_carry_the_token(
    stub: StubApi, client: KubeClient
) -> None:
    stub.script("GET", PATH, json_answer({"ok": True}))
    assert await client.get(PATH, params={"labelSelector": "a in (b,c)"}) == {"ok": True}
    (request,) = stub.requests
    assert request.headers["User-Agent"] == f"schedclass/{__version__} (test)"
    assert request.headers["Authorization"] == "Bearer t0k3n"
    assert request.query == {"labelSelector": "a in (b,c)"}


async def test_each_write_has_its_content_type_and_our_field_manager(
    stub: StubApi, client: KubeClient
) -> None:
    for method in ("POST", "PUT", "PATCH"):
        for path in (PATH, f"{PATH}/status"):
            stub.script(method, path, json_answer({}))
    body = {"metadata": {"labels": {"k": None}}}
    await client.create(PATH, body)
    await client.replace(PATH, body)
    await client.merge_patch(f"{PATH}/status", body)
    await client.json_patch(PATH, [{"op": "remove", "path": "/x"}])
    await client.apply(PATH, body, force=True)
    seen = [(one.path, one.headers["Content-Type"], one.query, one.body) for one in stub.requests]
    manager = {"fieldManager": "schedclass"}
    assert seen == [
        (PATH, "application/json", manager, body),
        (PATH, "application/json", manager, body),
        (f"{PATH}/status", "application/merge-patch+json", manager, body),
        (PATH, "application/json-patch+json", manager, [{"op": "remove", "path": "/x"}]),
        (PATH, "application/apply-patch+yaml", manager | {"force": "true"}, body),
    ]


async def test_only_the_api_server_itself_says_that_an_object_is_absent(
    stub: StubApi, client: KubeClient
) -> None:
    path = f"{PATH}/a"
    stub.script(
        "GET",
        path,
        json_answer({"n": 1}),
        failure(404, "NotFound", "not found", name="a"),
        text_answer("404 page not found", 404),
    )
    assert await client.find(path) == {"n": 1}
    assert await client.find(path) is None
    with pytest.raises(errors.NotFound):
        await client.find(path)


async def test_all_pages_of_a_list_come_in_order(stub: StubApi, client: KubeClient) -> None:
    stub.script("GET", PATH, page([obj("a", 1)], "9", more="t+/=k"), page([obj("b", 2)], "9"))
    got = [
        ([item["metadata"]["name"] for item in items], version)
        async for items, version in client.list_pages(PATH, page_size=1, metadata_only=True)
    ]
    assert got == [(["a"], "9"), (["b"], "9")]
    assert stub.requests[1].query == {"limit": "1", "continue": "t+/=k"}
    assert "as=PartialObjectMetadataList" in stub.requests[0].headers["Accept"]


async def watched(client: KubeClient, read_seconds: float = 5.0) -> list[tuple[str, str]]:
    got = []
    events = client.watch(PATH, resource_version="9", read_seconds=read_seconds)
    async with aclosing(events):
        async for kind, body in events:
            got.append((kind, body["metadata"]["resourceVersion"]))
    return got


async def test_a_watch_yields_events_however_they_are_cut_into_packets(
    stub: StubApi, client: KubeClient
) -> None:
    stream = Stream()
    stub.script("WATCH", PATH, stream)
    huge = obj("big", 12) | {"spec": "x" * (5 << 20)}
    stream.send("ADDED", obj("a", 10))
    stream.raw(b'{"type":"MODIFIED","obj')
    stream.raw(b'ect":{"metadata":{"resourceVersion":"11"}}}\n\n{"type":"DELETED",')
    stream.raw(b'"object":{"metadata":{"resourceVersion":"13"}}}\n')
    stream.send("ADDED", huge)
    stream.bookmark(14)
    stream.end()
    assert await watched(client) == [
        ("ADDED", "10"),
        ("MODIFIED", "11"),
        ("DELETED", "13"),
        ("ADDED", "12"),
        ("BOOKMARK", "14"),
    ]


async def test_an_expired_version_inside_the_stream_is_gone(
    stub: StubApi, client: KubeClient
) -> None:
    stream = Stream()
    stub.script("WATCH", PATH, stream)
    stream.send("ERROR", status_object(410, "Expired", "too old resource version"))
    with pytest.raises(errors.Gone, match="too old"):
        await watched(client)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"type":"ADDED","object":{"meta',
        b'{"type":"ADDED"}\n',
        b'{"type":1,"object":{}}\n',
        b'{"type":"ADDED","object":null}\n',
        b"[]\n",
        b"\xff\xfe\n",
    ],
)
async def test_a_torn_or_strange_event_ends_the_watch(
    stub: StubApi, client: KubeClient, raw: bytes
) -> None:
    stream = Stream()
    stub.script("WATCH", PATH, stream)
    stream.raw(raw)
    stream.end()
    with pytest.raises(errors.Unreachable):
        await watched(client)


async def test_a_cut_connection_ends_the_watch(stub: StubApi, client: KubeClient) -> None:
    stream = Stream()
    stub.script("WATCH", PATH, stream)
    stream.send("ADDED", obj("a", 10))
    stream.cut()
    with pytest.raises(errors.Unreachable, match="watch lost"):
        await watched(client)


async def test_a_silent_watch_is_found_dead(stub: StubApi, client: KubeClient) -> None:
    stub.script("WATCH", PATH, Stream())
    with pytest.raises(errors.Unreachable, match="timed out"):
        await watched(client, read_seconds=0.05)


def write_kubeconfig(folder: Path, server: str, user: str) -> Path:
    file = folder / "kubeconfig"
    file.write_text(f"""
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "{server}"}}}}]
users: [{{name: u, user: {user}}}]
""")
    return file


async def test_a_rotated_token_file_is_read_again_after_a_401(
    stub: StubApi, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    config = write_kubeconfig(tmp_path, stub.url, "{tokenFile: token}")
    refused = failure(401, "Unauthorized", "Unauthorized")
    async with await KubeClient.load(
        role="test", source=credentials.kubeconfig(str(config))
    ) as client:
        stub.script("GET", PATH, json_answer({"n": 1}), refused, json_answer({"n": 2}), refused)
        assert await client.get(PATH) == {"n": 1}
        token.write_text("new\n")
        assert await client.get(PATH) == {"n": 2}
        with pytest.raises(errors.Unauthorized):
            await client.get(PATH)
    assert [one.headers["Authorization"] for one in stub.requests] == [
        "Bearer old",
        "Bearer old",
        "Bearer new",
        "Bearer new",
    ]


async def test_credentials_are_read_again_each_minute_and_kept_when_that_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token, ca = tmp_path / "token", tmp_path / "ca"
    token.write_text("first")
    ca.write_text("pem")
    now = 0.0
    environ = {"KUBERNETES_SERVICE_HOST": "::1", "KUBERNETES_SERVICE_PORT": "443"}
    source = credentials.in_cluster(token_file=str(token), ca_file=str(ca), environ=environ)
    held = await credentials.Credentials.load(source, clock=lambda: now)
    assert held.configuration.host == "https://[::1]:443"
    token.write_text("second")
    seen = [await held.authorization()]
    now = 60.0
    seen.append(await held.authorization())
    token.write_text("")
    now = 120.0
    seen.append(await held.authorization())
    token.unlink()
    now = 180.0
    seen.append(await held.authorization())
    assert seen == ["bearer first", "bearer second", "bearer second", "bearer second"]
    assert caplog.text.count("keeping the last ones") == 2


@pytest.mark.parametrize(
    "text", ["", "a: [", "current-context: nope\ncontexts: []\nclusters: []", "[1, 2]", "42"]
)
async def test_a_broken_kubeconfig_is_answered_with_a_sentence(tmp_path: Path, text: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(text)
    with pytest.raises(errors.ConfigurationError, match=r"kubeconfig|credentials"):
        await KubeClient.load(role="test", source=credentials.kubeconfig(str(file)))


async def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    with pytest.raises(errors.ConfigurationError, match=f"{missing} does not exist"):
        await KubeClient.load(
            role="test", source=credentials.default_source({"KUBECONFIG": str(missing)})
        )


def test_paths_escape_what_they_are_given() -> None:
    assert resource_path("v1", "pods", namespace="a", name="../x?y", subresource="status") == (
        "/api/v1/namespaces/a/pods/..%2Fx%3Fy/status"
    )
    assert resource_path("a.b/v1", "things") == "/apis/a.b/v1/things"


@pytest.mark.parametrize(
    "name",
    [
        "..",
        ".",
        "",
        "a/b",
        "../../nodes",
        "a?limit=0",
        "a%2Fb",
        "%2e%2e",
        "a#b",
        "a b",
        "a\nb",
        "ä",
    ],
)
async def test_a_name_that_could_lead_to_another_object_is_not_asked_for(
    stub: StubApi, client: KubeClient, name: str
) -> None:
    escaped = resource_path("v1", "namespaces", name=name)
    for path in (escaped, escaped if name == "a/b" else f"{PATH}/{name}"):
        with pytest.raises(errors.Unreachable, match="no object has such a name"):
            await client.get(path)
        with pytest.raises(errors.Unreachable, match="no object has such a name"):
            await client.merge_patch(path, {})
    assert not stub.requests
