"""Which test of a run used which right."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controlplane.rights import Right
from tests.rights.record import Record, unused

USER = "system:serviceaccount:ops:schedclass-webhook"
REASON = 'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "schedclass-webhook" to ...'
LIST, GET = Right("webhook", "nodes", "list"), Right("webhook", "nodes", "get")


def request(verb: str, second: float) -> dict[str, Any]:
    return {
        "verb": verb,
        "user": {"username": USER},
        "objectRef": {"resource": "nodes"},
        "requestReceivedTimestamp": datetime.fromtimestamp(second, UTC).isoformat(),
        "annotations": {"authorization.k8s.io/reason": REASON},
    }


def report(test: str, start: float, stop: float, **other: str) -> dict[str, Any]:
    rest = {"when": "call", "outcome": "passed", "worker": "gw0", "text": "", **other}
    return {"test": test, "start": start, "stop": stop, **rest}


def written(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def record(folder: Path) -> Record:
    log = "cluster0/logs/audit.jsonl"
    early = [request("list", 1)]  # while nothing of a test had begun
    written(folder / "popen-gw0" / log, [*early, *(request("list", s) for s in (11, 25, 31))])
    written(folder / "popen-gw1" / log, [request("get", 12)])
    tests = [
        report("long", 10, 20),
        report("failing", 20, 30, outcome="failed"),
        report("short", 30, 32),
        report("elsewhere", 10, 20, worker="gw1"),
    ]
    return Record(written(folder / "reports.jsonl", tests), folder)


def test_a_request_belongs_to_the_test_of_its_worker_and_moment(tmp_path: Path) -> None:
    found = record(tmp_path)
    assert found.tests_that_use(GET) == ["elsewhere"]
    assert found.tests_that_use(Right("webhook", "nodes", "watch")) == []


def test_the_quickest_come_first_and_those_that_fail_anyway_not_at_all(tmp_path: Path) -> None:
    found = record(tmp_path)
    assert found.tests_that_use(LIST) == ["short", "long"]
    assert found.failed == ["failing"]


def test_a_right_is_unused_if_it_is_on_no_control_plane(tmp_path: Path) -> None:
    record(tmp_path)
    watch = Right("webhook", "nodes", "watch")
    first, second = tmp_path / "popen-gw0", tmp_path / "popen-gw1"
    assert unused([LIST, GET, watch], [first, second]) == [watch]
    assert unused([LIST, GET, watch], [first]) == [GET, watch]
