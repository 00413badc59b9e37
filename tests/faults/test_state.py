"""Certificates, definitions and Leases that are wrong, gone or doubled."""

import asyncio
import base64
import contextlib
import ssl
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from cryptography import x509

from controlplane import eventually
from controlplane.installation import NAMESPACE, RELEASE
from controlplane.processes import Command
from schedclass.domain import names
from schedclass.domain.findings import Reason
from schedclass.kube.client import KubeClient
from schedclass.kube.credentials import kubeconfig
from schedclass.settings import CertificateMode
from schedclass.tls.authority import certificates, service_hosts
from schedclass.tls.publisher import CertificatePlan, Publisher
from tests.cluster.handshakes import collect_handshakes
from tests.cluster.objects import (
    WEBHOOKS,
    class_path,
    labels,
    pod,
    pods_path,
)
from tests.faults.load import is_pinned
from tests.faults.scene import BACK_SECONDS, EAST, WEST, Scene
from tests.faults.supervisor import Supervisor

SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
SERVING = f"{SECRETS}/{RELEASE}-webhook-tls"
CRD = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{names.PLURAL}.{names.GROUP}"


# --- certificates ---------------------------------------------------------------------------------


def test_broken_pairs_in_the_secret_are_not_served(scene: Scene) -> None:
    """A key of another certificate, half a certificate, garbage, nothing."""
    good = scene.api.get(SERVING)["data"]
    half = base64.b64encode(base64.b64decode(good["tls.crt"])[:200]).decode()
    other_key = scene.api.get(f"{SECRETS}/{RELEASE}-webhook-ca")["data"]["ca.key"]
    broken = [
        {"tls.key": other_key},
        {"tls.crt": half},
        {"tls.crt": base64.b64encode(b"garbage").decode(), "tls.key": ""},
        {"tls.crt": "", "tls.key": ""},
    ]

    def tear() -> None:
        for turn in range(5 if scene.long else 1):
            for data in broken:
                scene.api.merge_patch(SERVING, {"data": data})
                eventually(
                    f"round {turn}: the leader has mended the pair",
                    partial(is_mended, scene, data),
                    seconds=60,
                )

    row = scene.strike("torn and mismatched pairs in the Secret", tear)
    assert row.escaped == row.refused == row.blocked == 0


def is_mended(scene: Scene, broken: dict[str, str]) -> bool:
    return not broken.items() <= scene.api.get(SERVING)["data"].items()


class Rotation:
    """The leader's own publisher, with lifetimes of seconds, in the place of the leader."""

    def __init__(self, scene: Scene, *, certificate: float, authority: float) -> None:
        self._scene = scene
        configurations = (
            f"{WEBHOOKS}/{kind}webhookconfigurations/{RELEASE}"
            for kind in ("mutating", "validating")
        )
        self._plan = CertificatePlan(
            namespace=NAMESPACE,
            authority_secret=f"{RELEASE}-webhook-ca",
            serving_secret=f"{RELEASE}-webhook-tls",
            configurations=tuple(configurations),
            hosts=service_hosts(f"{RELEASE}-webhook", NAMESPACE, "cluster.local", ["127.0.0.1"]),
            authority_life=timedelta(seconds=authority),
            certificate_life=timedelta(seconds=certificate),
            mode=CertificateMode.SELF_SIGNED,
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="publisher")

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()
            collect_handshakes()

    async def _run(self) -> None:
        source = kubeconfig(str(self._scene.cluster.kubeconfig))
        async with await KubeClient.load(role="tests", source=source) as client:
            publisher = asyncio.create_task(Publisher(client, self._plan, interval=1).run())
            await asyncio.to_thread(self._stop.wait)
            publisher.cancel()
            await asyncio.gather(publisher, return_exceptions=True)


def served(scene: Scene, name: str) -> x509.Certificate:
    pem = ssl.get_server_certificate(("127.0.0.1", scene.cluster.port(name)), timeout=10)
    return certificates(pem.encode())[0]


def says_expired(scene: Scene, name: str) -> bool:
    return "certificate expired" in readiness(scene, name)


def readiness(scene: Scene, name: str) -> str:
    url = f"http://127.0.0.1:{scene.operator.probe_port(name)}/readyz"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode()


def test_certificates_and_authorities_that_live_for_seconds_are_rotated_unnoticed(
    scene: Scene,
) -> None:
    supervisor = Supervisor(scene.operator)
    supervisor.held.update(scene.operator.controllers)
    rotation = Rotation(scene, certificate=15, authority=30)
    serials: dict[str, set[int]] = {name: set() for name in scene.operator.webhooks}
    bundles: Counter[int] = Counter()

    def rotate() -> None:
        for name in scene.operator.controllers:
            scene.operator.process(name).kill()
        scene.api.delete(f"{SECRETS}/{RELEASE}-webhook-ca")
        with rotation.running():
            deadline = time.monotonic() + (180 if scene.long else 120)
            while time.monotonic() < deadline and (scene.long or not seen_enough()):
                for name in scene.operator.webhooks:
                    serials[name].add(served(scene, name).serial_number)
                bundle = base64.b64decode(scene.api.get(SERVING)["data"]["ca.crt"])
                bundles[len(certificates(bundle))] += 1
                time.sleep(0.2)
        # The leader is not back for seconds yet: it shall find a pair that lasts.
        with Rotation(scene, certificate=3600, authority=7200).running():
            eventually("a pair that lasts is served", lambda: all(map(lasts, serials)), seconds=60)

    def seen_enough() -> bool:
        """Each replica had three certificates, and two CAs were trusted at the same time."""
        return min(map(len, serials.values())) >= 3 and max(bundles, default=0) >= 2

    def lasts(name: str) -> bool:
        return served(scene, name).not_valid_after_utc > datetime.now(UTC) + timedelta(minutes=5)

    row = scene.strike(
        "certificates live 15 s, CAs 30 s",
        rotate,
        supervisor.held.clear,
        changes=False,
        supervisor=supervisor,
    )
    assert seen_enough(), (serials, bundles)
    assert row.escaped == row.refused == row.blocked == 0


def test_an_expired_certificate_makes_a_replica_unready_until_there_is_a_new_one(
    scene: Scene,
) -> None:
    supervisor = Supervisor(scene.operator)
    supervisor.held.update(scene.operator.controllers)

    def expire() -> None:
        for name in scene.operator.controllers:
            scene.operator.process(name).kill()
        for secret in ("ca", "tls"):
            scene.api.delete(f"{SECRETS}/{RELEASE}-webhook-{secret}")
        with Rotation(scene, certificate=3, authority=300).running():
            eventually("a short-lived pair is there", lambda: scene.api.find(SERVING), seconds=60)
        for name in scene.operator.webhooks:
            eventually(
                f"{name} says that its certificate expired",
                partial(says_expired, scene, name),
                seconds=60,
            )
            assert not scene.operator.is_ready(name)

    row = scene.strike(
        "the certificate expires and nobody renews it",
        expire,
        supervisor.held.clear,
        changes=False,
        supervisor=supervisor,
    )
    assert row.escaped == row.blocked == 0


# --- the definition of classes --------------------------------------------------------------------


def is_in_use(scene: Scene, name: str) -> bool:
    return names.IN_USE in labels(scene.api.get(class_path(name)))


def test_deleting_the_definition_of_classes_in_use_takes_nothing_away(scene: Scene) -> None:
    unused = scene.tenants.create_class()
    for name in (WEST, EAST):
        scene.tenants.settle({scene.tenants.create(wants=name): name})
        eventually(f"{name} is in use", partial(is_in_use, scene, name))
    definition = scene.api.get(CRD)
    stripped = {key: definition["metadata"][key] for key in ("name", "labels", "annotations")}

    def delete() -> None:
        scene.api.delete(CRD)
        eventually("the unused class is gone", lambda: not scene.tenants.class_exists(unused))
        assert scene.tenants.class_exists(WEST)
        assert scene.tenants.class_exists(EAST)

    row = scene.strike("the CRD is deleted while classes are in use", delete, during=2)
    assert row.escaped == row.refused == row.blocked == 0
    # Now by force, as somebody may who finds it "stuck": this is a loss of every class.
    for name in (WEST, EAST):
        scene.api.merge_patch(class_path(name), {"metadata": {"finalizers": []}})
    eventually("the definition is gone", lambda: scene.api.find(CRD) is None, seconds=60)
    back = Supervisor(scene.operator)

    def restore() -> None:
        scene.api.create(
            CRD.rpartition("/")[0], {**definition, "metadata": stripped, "status": None}
        )
        scene.create_classes()

    with back:
        assert all(map(scene.operator.is_ready, scene.operator.webhooks))
        restore()
        # No process had to be started anew for it.
        scene.converge(seconds=BACK_SECONDS)
        assert back.restarts == 0
    made = scene.api.create(f"{pods_path(scene.pinned[0])}?dryRun=All", pod("probe"))
    assert is_pinned(made)


# --- two leaders ----------------------------------------------------------------------------------

LAUNCHER = """
from schedclass.settings import Settings
Settings.lease = property(lambda self: "another-lease")
from schedclass.main import app
app(["controller"])
"""


@pytest.fixture
def second(scene: Scene) -> Iterator[Command]:
    """How to start a controller that knows nothing of the other's Lease."""
    rules = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]}]
    role = {"metadata": {"name": "another-lease"}, "rules": rules}
    account = {"kind": "ServiceAccount", "name": f"{RELEASE}-controller", "namespace": NAMESPACE}
    binding = {
        "metadata": {"name": "another-lease"},
        "subjects": [account],
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Role",
            "name": "another-lease",
        },
    }
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
    scene.api.create(f"{rbac}/roles", role)
    scene.api.create(f"{rbac}/rolebindings", binding)
    name = "controller-twin"
    command = scene.operator.command(name)
    yield Command([sys.executable, "-c", LAUNCHER], command.env, command.unset)
    scene.cluster.process(name).stop()
    scene.api.delete(f"{rbac}/rolebindings/another-lease")
    scene.api.delete(f"{rbac}/roles/another-lease")


def test_two_controllers_at_once_neither_flap_nor_differ(scene: Scene, second: Command) -> None:
    twin = scene.cluster.start_process("controller-twin", second)
    eventually(
        "the twin leads as well", lambda: " leads" in scene.log("controller-twin"), seconds=60
    )
    mark = scene.cluster.audit.mark()
    turns = 20 if scene.long else 3

    def churn() -> None:
        for _ in range(turns):
            scene.change_class()
            scene.tenants.settle(dict.fromkeys(scene.members, scene.wanted), seconds=60)

    row = scene.strike("two controllers that both believe to lead", churn)
    assert row.escaped == row.refused == row.blocked == 0
    user = scene.operator.user("controller")
    patches = scene.cluster.audit.events(mark, user=user, resource="namespaces", verb="patch")
    written = Counter(e["objectRef"]["name"] for e in patches if e["responseStatus"]["code"] == 200)
    # strike and converge change the class once more each; every change is written once.
    assert all(written[name] <= turns + 2 for name in scene.members), written
    # Neither takes what the other has written for a third writer's resistance, and holds back.
    for name in scene.members:
        assert scene.tenants.events(name, Reason.LABEL_CONTESTED) == []
    assert twin.is_alive()
