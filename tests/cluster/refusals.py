"""Requests that the API server refused for want of a right, as its audit log shows them."""

from typing import Any

from controlplane import Cluster, Installation
from controlplane.api import USER_AGENT

ROLES = ("webhook", "controller")
EXTENDER = "schedclass/"
"""How the extender names itself; kube-scheduler, which has the same account, does not."""


def refused_to(
    cluster: Cluster, user: str, *, of_tests: bool = False, agent: str = ""
) -> list[tuple[str, str]]:
    """Verb and path of what a user was never allowed to ask; also of tests, if they are wanted.

    Only the authorizer's own refusals count: an admission policy or the end of a namespace is
    answered with 403 as well. Refusals of what was allowed at other times do not: an API server
    that has just started refuses everybody until it has read the roles.
    """
    events = [
        event
        for event in cluster.audit.events(0, user=user)
        if of_tests or not event.get("userAgent", "").startswith(USER_AGENT)
        if event.get("userAgent", "").startswith(agent)
        if not _is_nobodys(event["requestURI"])
    ]
    allowed = {_asked(event) for event in events if _decision(event) == "allow"}
    refused = [_asked(event) for event in events if _decision(event) == "forbid"]
    return [asked for asked in refused if asked not in allowed]


def _is_nobodys(uri: str) -> bool:
    """Whether no object can have this name: only what is hostile on purpose asks for it."""
    return "%2F" in uri.partition("?")[0]


def _decision(event: dict[str, Any]) -> str | None:
    decision: str | None = event.get("annotations", {}).get("authorization.k8s.io/decision")
    return decision


def _asked(event: dict[str, Any]) -> tuple[str, str]:
    return event["verb"], event["requestURI"].partition("?")[0]


def refused_requests(operator: Installation) -> list[tuple[str, str]]:
    """What the operator's roles lacked rights for since the start."""
    cluster = operator.cluster
    found = [each for role in ROLES for each in refused_to(cluster, operator.user(role))]
    return found + refused_to(cluster, operator.user("scheduler"), agent=EXTENDER)
