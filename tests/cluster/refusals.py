"""Requests that the API server refused for want of a right, as its audit log shows them."""

from controlplane import Cluster, Installation

ROLES = ("webhook", "controller")


def refused_to(cluster: Cluster, user: str) -> list[tuple[str, str]]:
    """Verb and path of what a user was not allowed to ask.

    Only the authorizer's own refusals count: an admission policy or the end of a namespace is
    answered with 403 as well.
    """
    return [
        (event["verb"], event["requestURI"])
        for event in cluster.audit.events(0, user=user)
        if event.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"
    ]


def refused_requests(operator: Installation) -> list[tuple[str, str]]:
    """What the operator's roles lacked rights for since the start."""
    return [each for role in ROLES for each in refused_to(operator.cluster, operator.user(role))]
