"""Rights that the chart grants, one by one: which there are, who used which, and how to drop one.

A right is one verb on one resource, of one name where names limit it. The name of the release is
taken out of everything, so that rights of two releases of the chart compare equal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from itertools import product
from pathlib import Path
from typing import Any

RELEASE = "RELEASE"
"""Stands for the release's own name in names of objects."""

_ACCOUNT = re.compile(r"system:serviceaccount:[^:]+:(.*schedclass)-([a-z]+)")
_GRANTED_BY = re.compile(r'^RBAC: allowed by .* of (?:Cluster)?Role "([^"]*)"')
_ROLE_NAME = re.compile(r"(.*schedclass)-([a-z]+)")

Object = dict[str, Any]


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one resource.

    Attributes:
        role: which of the chart's roles grants it: `webhook`, `viewer`...
        resource: `pods`, `pods/binding`, `leases.coordination.k8s.io`.
        verb: of the API.
        name: the one object it is limited to, if any.
    """

    role: str
    resource: str
    verb: str
    name: str = ""

    def __str__(self) -> str:
        of = f"{self.resource}/{self.name}" if self.name else self.resource
        return f"{self.role}: {self.verb} {of}"


def granted(objects: Iterable[Object]) -> list[Right]:
    """Every right that the roles among rendered objects grant, sorted."""
    found: set[Right] = set()
    for obj in objects:
        if obj["kind"] in {"ClusterRole", "Role"}:
            release, role = _role(obj)
            for rule in obj["rules"]:
                found.update(right for right, _ in _single(rule, release, role))
    return sorted(found)


def without(objects: Iterable[Object], right: str) -> Iterator[Object]:
    """Rendered objects again, but no role grants this one right; `right` as `str` shows it."""
    for obj in objects:
        if obj["kind"] not in {"ClusterRole", "Role"}:
            yield obj
            continue
        release, role = _role(obj)
        rules = [
            single
            for rule in obj["rules"]
            for each, single in _single(rule, release, role)
            if str(each) != right
        ]
        yield {**obj, "rules": rules}


def _role(obj: Mapping[str, Any]) -> tuple[str, str]:
    """The release and the role that the name of a ClusterRole or Role consists of."""
    name = obj["metadata"]["name"]
    match = _ROLE_NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"{obj['kind']} {name} is named after no role of the chart")
    return match[1], match[2]


def _single(rule: Mapping[str, Any], release: str, role: str) -> Iterator[tuple[Right, Object]]:
    """Each right of a rule, and the rule that grants nothing else."""
    names = rule.get("resourceNames", [""])
    for group, resource, name, verb in product(
        rule["apiGroups"], rule["resources"], names, rule["verbs"]
    ):
        single: Object = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        if name:
            single["resourceNames"] = [name]
        yield Right(role, _full(resource, group), verb, _neutral(name, release)), single


def _full(resource: str, group: str) -> str:
    plural, slash, subresource = resource.partition("/")
    return f"{plural}.{group}{slash}{subresource}" if group else resource


def _neutral(name: str, release: str) -> str:
    return RELEASE + name.removeprefix(release) if name.startswith(release) else name


def used(audit_log: Path) -> Iterator[tuple[str, Right]]:
    """When which right was used, with the name of the object that it was used on.

    A request counts for the role whose account sent it; one of anybody else, if the API server
    says that a role of the chart allowed it. Compare by `matches`.

    Yields:
        The time at which the request came in (RFC 3339, microseconds), and the right.
    """
    with audit_log.open(encoding="utf-8") as lines:
        for line in lines:
            if "schedclass" in line and "RBAC: allowed by" in line and line.endswith("\n"):
                event = json.loads(line)
                for right in _asked(event):
                    yield event["requestReceivedTimestamp"], right


def _asked(event: Mapping[str, Any]) -> list[Right]:
    reason = event.get("annotations", {}).get("authorization.k8s.io/reason", "")
    granting = _GRANTED_BY.match(reason)
    reference = event.get("objectRef")
    if granting is None or reference is None:
        return []
    account = _ACCOUNT.fullmatch(event["user"].get("username", ""))
    role = account or _ROLE_NAME.fullmatch(granting[1])
    if role is None:
        return []
    resource = reference.get("resource", "")
    if subresource := reference.get("subresource"):
        resource = f"{resource}/{subresource}"
    verbs = [event["verb"]]
    if verbs == ["patch"] and event.get("responseStatus", {}).get("code") == HTTPStatus.CREATED:
        verbs.append("create")  # an apply that creates is authorized twice, and told of once
    full = _full(resource, reference.get("apiGroup", ""))
    name = _neutral(reference.get("name", ""), role[1])
    return [Right(role[2], full, verb, name) for verb in verbs]


def matches(right: Right, use: Right) -> bool:
    """Whether a use (see `used`) needed this right."""
    same = (right.role, right.resource, right.verb) == (use.role, use.resource, use.verb)
    return same and right.name in {"", use.name}
