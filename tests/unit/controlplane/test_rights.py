"""Rights of rendered roles, and their uses in an audit log."""

import json
from pathlib import Path
from typing import Any

import pytest

from controlplane.rights import Right, granted, matches, used, without

ROLE = {
    "kind": "Role",
    "metadata": {"name": "rel-schedclass-webhook"},
    "rules": [
        {
            "apiGroups": [""],
            "resources": ["secrets"],
            "resourceNames": ["rel-schedclass-tls", "other"],
            "verbs": ["get", "patch"],
        },
        {"apiGroups": ["example.com"], "resources": ["a", "a/status"], "verbs": ["list"]},
    ],
}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}


def test_every_verb_on_every_resource_of_every_name_is_a_right() -> None:
    assert list(map(str, granted([SECRET, ROLE]))) == [
        "webhook: list a.example.com",
        "webhook: list a.example.com/status",
        "webhook: get secrets/RELEASE-tls",
        "webhook: get secrets/other",
        "webhook: patch secrets/RELEASE-tls",
        "webhook: patch secrets/other",
    ]


def test_exactly_one_right_is_taken_away() -> None:
    before = granted([ROLE])
    for right in before:
        rendered = list(without([SECRET, ROLE], str(right)))
        assert rendered[0] == SECRET
        assert granted(rendered) == [each for each in before if each != right]
    assert granted(without([ROLE], "none")) == before


def test_a_role_that_is_not_named_after_the_chart_is_an_error() -> None:
    with pytest.raises(ValueError, match="Role stranger is named after no role"):
        granted([{"kind": "Role", "metadata": {"name": "stranger"}, "rules": []}])


def event(user: str, reason: str, **reference: str) -> dict[str, Any]:
    return {
        "verb": "get",
        "user": {"username": user},
        "objectRef": reference,
        "requestReceivedTimestamp": "2026-01-01T00:00:00.000001Z",
        "annotations": {"authorization.k8s.io/reason": reason},
    }


WEBHOOK = "system:serviceaccount:ops:rel-schedclass-webhook"
BY_ROLE = 'RBAC: allowed by RoleBinding "b/ops" of Role "rel-schedclass-webhook" to ...'
BY_VIEWER = 'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "rel-schedclass-viewer" to ...'
BY_OTHER = 'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "cluster-admin" to ...'
TLS = {"resource": "secrets", "name": "rel-schedclass-tls", "namespace": "ops"}


@pytest.mark.parametrize(
    ("line", "right"),
    [
        (event(WEBHOOK, BY_ROLE, **TLS), "webhook: get secrets/RELEASE-tls"),
        (event(WEBHOOK, BY_OTHER, **TLS), "webhook: get secrets/RELEASE-tls"),
        (event("jane", BY_VIEWER, resource="a", apiGroup="b.c"), "viewer: get a.b.c"),
        (event("jane", BY_OTHER, **TLS), None),
        (event(WEBHOOK, "", **TLS), None),
        (
            event(WEBHOOK, BY_ROLE, resource="a", apiGroup="b.c", subresource="status"),
            "webhook: get a.b.c/status",
        ),
    ],
)
def test_a_use_is_what_the_api_server_allowed_an_account_of_the_chart(
    tmp_path: Path, line: dict[str, Any], right: str | None
) -> None:
    log = tmp_path / "audit.jsonl"
    log.write_text(f"{json.dumps(line)}\n{json.dumps(line)[:50]}", encoding="utf-8")
    found = [str(use) for _, use in used(log)]
    assert found == ([right] if right else [])


def test_an_apply_that_creates_uses_two_rights(tmp_path: Path) -> None:
    applied = {**event(WEBHOOK, BY_ROLE, **TLS), "verb": "patch", "responseStatus": {"code": 201}}
    log = tmp_path / "audit.jsonl"
    log.write_text(f"{json.dumps(applied)}\n", encoding="utf-8")
    assert [right.verb for _, right in used(log)] == ["patch", "create"]


def test_a_right_without_a_name_covers_every_name() -> None:
    use = Right("webhook", "secrets", "get", "a")
    assert matches(Right("webhook", "secrets", "get"), use)
    assert matches(Right("webhook", "secrets", "get", "a"), use)
    assert not matches(Right("webhook", "secrets", "get", "b"), use)
    assert not matches(Right("webhook", "secrets", "list"), use)
