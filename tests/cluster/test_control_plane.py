"""The harness itself: what it starts is a real cluster, and nothing of it outlives its owner."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from controlplane import ApiError, Cluster, Kubectl, ProcessError, eventually
from controlplane.components import ORDER
from controlplane.paths import REPOSITORY
from controlplane.processes import Command, Identity, ManagedProcess, recorded


@pytest.fixture(scope="module")
def module_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("own") / "run") as cluster:
        yield cluster


@pytest.fixture
def own_cluster(module_cluster: Cluster) -> Cluster:
    """A control plane that a test may break, healed of the last one."""
    module_cluster.heal()
    return module_cluster


def processes_in(folder: Path) -> list[psutil.Process]:
    """Every running process whose command line mentions the folder."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if any(str(folder) in part for part in process.info["cmdline"] or [])
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def pods(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = cluster.admin.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return items


def test_nodes_are_ready_in_three_zones(kubectl: Kubectl) -> None:
    found = json.loads(kubectl("get", "nodes", "-o", "json"))["items"]
    zones = {n["metadata"]["labels"]["topology.kubernetes.io/zone"] for n in found}
    ready = [c["status"] for n in found for c in n["status"]["conditions"] if c["type"] == "Ready"]
    assert zones == {"a", "b", "c"}
    assert set(ready) == {"True"}


def test_a_deployments_pods_run(cluster: Cluster, kubectl: Kubectl, namespace: str) -> None:
    kubectl("-n", namespace, "create", "deployment", "web", "--image=web", "--replicas=3")
    kubectl("-n", namespace, "rollout", "status", "deployment/web", "--timeout=30s")
    assert {p["status"]["phase"] for p in pods(cluster, namespace)} == {"Running"}


def test_a_job_completes(kubectl: Kubectl, namespace: str) -> None:
    kubectl("-n", namespace, "create", "job", "once", "--image=job")
    kubectl("-n", namespace, "wait", "job/once", "--for=condition=Complete", "--timeout=30s")


def test_a_pod_whose_scheduler_does_not_exist_stays_pending(
    cluster: Cluster, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    containers = [{"name": "main", "image": "web"}]
    for name, scheduler in (("orphan", "nobody"), ("usual", "default-scheduler")):
        spec = {"schedulerName": scheduler, "containers": containers}
        cluster.admin.create(path, {"metadata": {"name": name}, "spec": spec})

    def phases() -> dict[str, str]:
        return {p["metadata"]["name"]: p["status"]["phase"] for p in pods(cluster, namespace)}

    eventually("the usual pod runs", lambda: phases()["usual"] == "Running")
    assert phases()["orphan"] == "Pending"


def test_a_deleted_pod_and_its_namespace_go_away(cluster: Cluster, kubectl: Kubectl) -> None:
    name = cluster.create_namespace()
    kubectl("-n", name, "run", "web", "--image=web")
    kubectl("-n", name, "wait", "pod/web", "--for=condition=Ready", "--timeout=30s")
    kubectl("delete", "namespace", name, "--timeout=30s")
    assert cluster.admin.find(f"/api/v1/namespaces/{name}") is None


def test_mutating_and_validating_policies_are_served(kubectl: Kubectl) -> None:
    served = kubectl("api-resources", "--api-group=admissionregistration.k8s.io", "-o", "name")
    assert "mutatingadmissionpolicies.admissionregistration.k8s.io" in served
    assert "validatingadmissionpolicies.admissionregistration.k8s.io" in served


def test_a_service_account_has_its_own_rights_only(cluster: Cluster, namespace: str) -> None:
    account = cluster.identities.service_account_kubeconfig(namespace, "default")
    user = cluster.kubectl.as_user(account)
    assert f"system:serviceaccount:{namespace}:default" in user("auth", "whoami")
    refused = user.attempt("get", "nodes")
    assert refused.returncode == 1
    assert "Forbidden" in refused.stderr


def test_a_user_is_who_its_certificate_says(cluster: Cluster) -> None:
    stranger = cluster.identities.api("jane", ["tenants"])
    with pytest.raises(ApiError, match='User "jane" cannot list resource "nodes"') as refused:
        stranger.get("/api/v1/nodes")
    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")


def test_the_audit_log_counts_requests_by_who_and_what(cluster: Cluster) -> None:
    before = cluster.audit.mark()
    for _ in range(3):
        cluster.kubectl("get", "--raw", "/api/v1/nodes")
    cluster.admin.get("/api/v1/namespaces")
    counted = cluster.audit.count(before, user="admin", user_agent="kubectl", resource="nodes")
    assert counted == 3
    assert cluster.audit.count(before, user_agent="schedclass-harness", verb="list") == 1
    assert cluster.audit.count(before, user="nobody") == 0


def test_a_killed_api_server_comes_back_on_its_port_with_its_data(own_cluster: Cluster) -> None:
    name = own_cluster.create_namespace()
    url, server = own_cluster.url, own_cluster.process("kube-apiserver")
    others = {n: own_cluster.process(n).pid for n in ("etcd", "kwok")}
    server.kill()
    assert not own_cluster.admin.answers_ok()
    own_cluster.start()
    assert own_cluster.url == url
    assert own_cluster.admin.find(f"/api/v1/namespaces/{name}") is not None
    assert {n: own_cluster.process(n).pid for n in others} == others


def test_starting_twice_changes_nothing(own_cluster: Cluster) -> None:
    before = {name: own_cluster.process(name).pid for name in ORDER}
    Cluster(own_cluster.folder, watched=False).start()
    assert {name: own_cluster.process(name).pid for name in ORDER} == before


def test_a_paused_component_answers_again_when_resumed(own_cluster: Cluster) -> None:
    server = own_cluster.process("kube-apiserver")
    server.pause()
    assert psutil.Process(server.pid).status() == psutil.STATUS_STOPPED
    server.resume()
    eventually("the API server answers", own_cluster.admin.answers_ok)


def test_stopping_leaves_no_process(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "run")
    cluster.start()
    assert len(processes_in(cluster.folder)) == len(ORDER) + 1  # and the watchdog
    cluster.stop()
    assert processes_in(cluster.folder) == []
    assert recorded(cluster.folder) == []


def test_nothing_outlives_an_owner_that_was_killed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    owner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time, pathlib, controlplane\n"
            "controlplane.Cluster(pathlib.Path(sys.argv[1])).start()\n"
            "print('started', flush=True)\n"
            "time.sleep(600)\n",
            str(folder),
        ],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"started\n"
        assert len(processes_in(folder)) > len(ORDER)
        owner.kill()
    eventually("every process has ended", lambda: processes_in(folder) == [])


def test_a_component_that_cannot_start_says_why_and_where_its_log_is(tmp_path: Path) -> None:
    process = ManagedProcess(tmp_path, "broken")
    process.start(Command(["bash", "-c", "echo the port is taken; exit 3"]))
    with pytest.raises(ProcessError) as failure:
        process.wait_ready(lambda: False, seconds=10)
    message = str(failure.value)
    assert message.startswith("broken ended before it was ready")
    assert str(tmp_path / "logs" / "broken.log") in message
    assert "the port is taken" in message


def test_a_process_that_was_dying_when_it_was_found_running_is_started_anew(
    tmp_path: Path,
) -> None:
    process = ManagedProcess(tmp_path, "dying")
    command = Command(["sleep", "60"])
    process.start(command)
    first = process.pid
    process.start(command)
    os.kill(first, signal.SIGKILL)
    assert process.wait_gone(5)
    process.wait_ready(lambda: process.is_alive() and process.pid != first, seconds=10)
    process.stop()


def test_a_program_that_does_not_exist_is_named(tmp_path: Path) -> None:
    process = ManagedProcess(tmp_path, "absent")
    with pytest.raises(ProcessError, match="absent cannot be started: /no/such: No such file"):
        process.start(Command(["/no/such"]))


def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    process = ManagedProcess(tmp_path, "stubborn")
    process.start(
        Command(["bash", "-c", "trap '' TERM; echo up; while :; do read -t 1 <> <(:); done"])
    )
    process.wait_ready(lambda: "up\n" in process.log.read_text().splitlines(True), seconds=10)
    pid = process.pid
    process.stop(grace=0.2)
    assert not psutil.pid_exists(pid)
    assert not process.pid_file.exists()


def test_a_pid_that_now_belongs_to_another_process_is_never_signalled(tmp_path: Path) -> None:
    bystander = subprocess.Popen(["sleep", "60"], start_new_session=True)
    with bystander:
        real = Identity.of(bystander.pid)
        assert real is not None
        record = tmp_path / "processes" / "old.json"
        record.parent.mkdir()
        stale = {"pid": real.pid, "startTicks": real.start_ticks - 1, "bootId": real.boot_id}
        record.write_text(json.dumps(stale))
        old = ManagedProcess(tmp_path, "old")
        assert not old.is_alive()
        old.stop()
        assert bystander.poll() is None
        os.kill(bystander.pid, signal.SIGKILL)
