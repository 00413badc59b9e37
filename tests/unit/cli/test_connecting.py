"""What is said where there is no cluster to be asked, or it does not answer."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from controlplane.pki import Authority
from schedclass.cli.unreachable import why_unreachable
from schedclass.kube.errors import Unreachable
from tests.stubapi import Json, failure, stub_api
from tests.unit.cli.running import schedclass


def config(server: str, ca: Path | None = None) -> Json:
    cluster = {"server": server, **({"certificate-authority": str(ca)} if ca else {})}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": cluster}],
        "users": [{"name": "me", "user": {"token": "stale"}}],
        "contexts": [
            {"name": "here", "context": {"cluster": "here", "user": "me"}},
            {"name": "there", "context": {"cluster": "gone", "user": "me"}},
        ],
    }


def written(folder: Path, content: object) -> Path:
    path = folder / "config"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def complaint(*arguments: str | Path) -> str:
    """The one sentence with which a command ends."""
    done = schedclass("tree", *arguments)
    assert (done.code, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1, done.err
    return done.err.removeprefix("error: ").rstrip("\n")


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ("https://127.0.0.1:1", "connection refused"),
        ("https://no-such-host.invalid:6443", "its name is not resolved"),
    ],
)
def test_a_server_that_is_not_there_is_told_without_words_of_the_library(
    tmp_path: Path, server: str, why: str
) -> None:
    path = written(tmp_path, config(server))
    said = complaint("--kubeconfig", path)
    assert said == f"the API server {server} cannot be reached: {why}"


def test_a_server_that_is_silent_timed_out() -> None:
    error = Unreachable("/api/v1/nodes", "timed out")
    error.__cause__ = TimeoutError()
    assert why_unreachable("https://a", error) == (
        "the API server https://a cannot be reached: timed out"
    )


def test_an_answer_that_is_no_object_is_not_called_unreachable() -> None:
    error = Unreachable("/api/v1/nodes", "the answer is not a JSON object")
    assert why_unreachable("https://a", error) == (
        "the API server https://a gives no usable answer: the answer is not a JSON object"
    )


async def test_credentials_that_are_refused_are_named_by_their_context(tmp_path: Path) -> None:
    async with stub_api() as stub:
        stub.script("GET", "/api/v1/nodes", failure(401, "Unauthorized", "Unauthorized"))
        path = written(tmp_path, config(stub.url))
        said = await asyncio.to_thread(complaint, "--kubeconfig", path)
    assert said == (
        f"the API server {stub.url} does not accept the credentials of context here; log in again, "
        "or choose another with --context or --kubeconfig"
    )


# --- certificates ------------------------------------------------------------------------------


@asynccontextmanager
async def tls_server(folder: Path, certificate: str, key: str) -> AsyncIterator[str]:
    (folder / "tls.crt").write_text(certificate)
    (folder / "tls.key").write_text(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def authority(folder: Path) -> Authority:
    folder.mkdir()
    made = Authority(folder)
    made.prepare()
    return made


async def test_a_certificate_of_an_authority_that_is_not_ours_is_not_trusted(
    tmp_path: Path,
) -> None:
    theirs, ours = authority(tmp_path / "theirs"), authority(tmp_path / "ours")
    pair = theirs.issue("server", addresses=["127.0.0.1"])
    async with tls_server(tmp_path, pair.certificate, pair.key) as url:
        path = written(tmp_path, config(url, ours.certificate_file))
        said = await asyncio.to_thread(complaint, "--kubeconfig", path)
    assert said.startswith(f"the certificate of the API server {url} is not trusted: ")
    assert said.endswith("; see certificate-authority in kubeconfig")


async def test_a_certificate_for_another_host_is_told_as_such(tmp_path: Path) -> None:
    ours = authority(tmp_path / "ours")
    pair = ours.issue("server", hosts=["elsewhere.example"])
    async with tls_server(tmp_path, pair.certificate, pair.key) as url:
        path = written(tmp_path, config(url, ours.certificate_file))
        said = await asyncio.to_thread(complaint, "--kubeconfig", path)
    assert said.startswith(f"the certificate of the API server {url} is for another host: ")
    assert "127.0.0.1" in said


@pytest.mark.parametrize(
    ("begins", "ends", "said"), [(-2, -1, "has expired"), (1, 2, "is not valid yet")]
)
async def test_a_certificate_out_of_its_time_is_told_as_such(
    tmp_path: Path, begins: int, ends: int, said: str
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=begins))
        .not_valid_after(now + timedelta(days=ends))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    async with tls_server(tmp_path, certificate.decode(), private.decode()) as url:
        path = written(tmp_path, config(url, tmp_path / "tls.crt"))
        told = await asyncio.to_thread(complaint, "--kubeconfig", path)
    assert told.startswith(f"the certificate of the API server {url} {said}")


# --- kubeconfig --------------------------------------------------------------------------------


def test_a_kubeconfig_that_is_not_there_is_told_with_what_named_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    assert complaint() == ("kubeconfig /nowhere does not exist; set KUBECONFIG to a file that does")
    assert complaint("--kubeconfig", "/nope") == (
        "kubeconfig /nope does not exist; give --kubeconfig a file that does"
    )
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert complaint() == (
        "kubeconfig ~/.kube/config does not exist; give --kubeconfig a file, or set KUBECONFIG"
    )


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a: [", ":1: is no kubeconfig: expected the node content, but found '<stream end>'"),
        ("a: b: c", ":1: is no kubeconfig: mapping values are not allowed here"),
        ("- a", " is no kubeconfig: it must have clusters, contexts and users"),
        ("contexts: {a: b}", " is no kubeconfig: contexts must be a list of objects with names"),
        ("contexts: [a]", " is no kubeconfig: contexts must be a list of objects with names"),
        ("", " chooses no context; name one with --context: there are none"),
    ],
)
def test_a_broken_kubeconfig_is_told_in_one_sentence(
    tmp_path: Path, content: str, sentence: str
) -> None:
    path = written(tmp_path, content)
    said = complaint("--kubeconfig", path).removeprefix("kubeconfig ")
    assert said.startswith(f"{path}{sentence.partition(',')[0]}")


@pytest.mark.parametrize(
    ("cluster", "user", "sentence"),
    [
        (
            {"server": "https://127.0.0.1:1", "certificate-authority-data": "YWJj"},
            {"token": "x"},
            "the certificates of context here cannot be used: no certificate or crl found; ",
        ),
        ({}, {"token": "x"}, 'cluster "here" needs a server as https://HOST:6443, not none'),
        ({"server": "127.0.0.1:1"}, {}, 'as https://HOST:6443, not "127.0.0.1:1"'),
        (None, {"token": "x"}, 'is no kubeconfig: cluster "here" must be an object'),
        ({"server": "https://127.0.0.1:1"}, None, 'is no kubeconfig: user "me" must be an object'),
        (
            {"server": "https://127.0.0.1:1"},
            {"tokenFile": "/nope"},
            "cannot read the cluster's credentials: /nope: No such file or directory",
        ),
    ],
)
def test_what_a_context_points_at_is_told_in_one_sentence(
    tmp_path: Path, cluster: Json | None, user: Json | None, sentence: str
) -> None:
    content = config("")
    content["clusters"][0]["cluster"] = cluster
    content["users"][0]["user"] = user
    assert sentence in complaint("--kubeconfig", written(tmp_path, content))


def test_a_folder_is_no_kubeconfig(tmp_path: Path) -> None:
    assert complaint("--kubeconfig", tmp_path) == (
        f"kubeconfig {tmp_path} cannot be read: Is a directory"
    )


def test_contexts_that_there_are_are_listed(tmp_path: Path) -> None:
    path = written(tmp_path, config("https://127.0.0.1:1"))
    assert complaint("--kubeconfig", path, "--context", "prod") == (
        f'kubeconfig {path} has no context "prod"; there are here, there'
    )
    assert complaint("--kubeconfig", path, "--context", "there") == (
        f'{path}: context "there" names cluster "gone", which is not there'
    )


async def test_files_of_kubeconfig_are_merged_and_the_context_gives_the_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stub_api() as stub:
        whole = config(stub.url)
        contexts = [{"name": "own", "context": {"cluster": "here", "user": "me", "namespace": "x"}}]
        first = tmp_path / "first"
        first.write_text(yaml.safe_dump({"current-context": "own", "contexts": contexts}))
        second = written(tmp_path, whole)
        monkeypatch.setenv("KUBECONFIG", f"{first}:{tmp_path / 'none'}:{second}")
        denied = failure(403, "Forbidden", "no")
        for path in ("nodes", "namespaces", "pods"):
            stub.script("GET", f"/api/v1/{path}", denied)
        done = await asyncio.to_thread(schedclass, "explain", "pod", "web")
    assert "error: pod x/web cannot be seen: " in done.err


def test_an_output_that_there_is_not_is_told_without_words_of_the_library() -> None:
    done = schedclass("tree", "-o", "wide")
    assert done.code == 2
    assert "'wide' is not one of 'table', 'json', 'yaml'" in done.err
    assert "Value error" not in done.err
