"""`make up` and `make down`: one long-lived control plane with the operator, healed by a repeat."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from controlplane import Cluster, Installation, ProcessError, run
from controlplane.__main__ import app
from controlplane.components import ORDER
from controlplane.ports import is_free
from controlplane.processes import Command, recorded

ROLES = ("webhook", "controller", "extender", "scheduler")
OPERATOR = {"webhook-service", *(f"{role}-{number}" for role in ROLES for number in (0, 1))}


def pids(folder: Path) -> dict[str, int]:
    return {path.name: int(path.read_text()) for path in (folder / "pids").iterdir()}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "run"
    yield folder
    Cluster(folder, watched=False).stop()


def test_up_starts_all_of_it_and_down_leaves_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = run.up(4, folder=folder)
    first = pids(folder)
    assert set(first) == {*ORDER, *OPERATOR}
    assert all(psutil.pid_exists(pid) for pid in first.values())
    assert cluster.kubeconfig == folder / "kubeconfig"
    assert cluster.kubectl("get", "nodes", "-o", "name").split() == [
        f"node/node-{number}" for number in range(1, 5)
    ]

    run.up(4, folder=folder)
    assert pids(folder) == first

    victims = {"webhook-1", "kube-apiserver", "webhook-service"}
    for victim in victims:
        os.kill(first[victim], signal.SIGKILL)
        assert cluster.process(victim).wait_gone(5)
    run.up(4, folder=folder)
    changed = {name for name, pid in pids(folder).items() if pid != first[name]}
    # Who leads may have ended by itself: it does when it cannot renew its Lease for ten seconds.
    may_end = {name for name in OPERATOR if name.startswith(("controller-", "scheduler-"))}
    assert victims <= changed <= victims | may_end

    running = list(pids(folder).values())
    run.down(folder)
    assert [pid for pid in running if psutil.pid_exists(pid)] == []
    assert sorted(path.name for path in folder.iterdir()) == ["lock", "logs"]
    assert "Ended 14 processes" in capsys.readouterr().out


def test_the_operators_processes_have_the_rights_of_their_own_account_only(
    operator: Installation,
) -> None:
    cluster = operator.cluster
    for role in ("webhook", "controller"):
        process = cluster.process(f"{role}-0")
        environment = psutil.Process(process.pid).environ()
        user = cluster.kubectl.as_user(Path(environment["KUBECONFIG"]))
        account = f"system:serviceaccount:cozy-schedclass:schedclass-{role}"
        who = json.loads(user("auth", "whoami", "-o", "json"))["status"]["userInfo"]
        assert who["username"] == account
        assert "system:masters" not in who["groups"]
        assert cluster.audit.count(user=account, user_agent="schedclass/") > 0


def test_a_stranger_on_a_port_is_reported_with_the_way_out(folder: Path) -> None:
    cluster = run.up(1, bare=True, folder=folder)
    cluster.process("kwok").stop()
    port = cluster.port("kwok")
    squatter = cluster.process("squatter")
    squatter.start(Command(["python3", "-m", "http.server", "--bind=127.0.0.1", str(port)]))
    squatter.wait_ready(lambda: not is_free(port), seconds=10)
    with pytest.raises(ProcessError, match=f"kwok cannot start: port {port}.* is taken"):
        run.up(1, bare=True, folder=folder)


def test_a_number_of_nodes_that_makes_no_sense_is_refused_in_a_sentence() -> None:
    for value in ("0", "-1", "many"):
        result = CliRunner().invoke(app, ["up", f"--nodes={value}"])
        assert result.exit_code == 2
        assert "Invalid value for '--nodes'" in result.stderr
        assert "Traceback" not in result.stderr


def test_down_where_nothing_ever_ran_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run.down(tmp_path / "run")
    assert capsys.readouterr().out == "Nothing runs.\n"
    assert recorded(tmp_path / "run") == []
