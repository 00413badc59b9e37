"""What is wrong with objects as they were given: the API server would refuse or not know them.

None of it can be seen in what is made of the objects later: a kind that is not known is of no use
here, and a key that is not ours is nobody's business.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from schedclass.domain import names
from schedclass.domain.findings import Finding, Reason, Severity
from schedclass.domain.label_syntax import why_not_dns_label, why_not_dns_subdomain
from schedclass.domain.near import did_you_mean, nearest
from schedclass.domain.rawjson import mapping_or_empty

_OURS: Final = {names.KIND: names.API_VERSION, "Tenant": names.TENANT_API_VERSION}
"""The kinds that decide, with the version in which they are read."""

_READ: Final = {kind.lower(): kind for kind in (*_OURS, "Namespace", "Node", "Pod")}

_LONGEST_LABEL: Final = 63

_LABELS: Final = (names.CLASS_KEY, names.ENFORCED)
_ANNOTATIONS: Final = (
    names.INHERITED_FROM,
    names.INHERITED_CLASS,
    names.INHERITED_FROM_UID,
    names.REQUESTED_CLASS,
)


def object_findings(obj: Mapping[str, Any]) -> Iterator[Finding]:
    """Judge kind, apiVersion and name of an object, and the field of a Tenant that names a class.

    Kinds that have nothing to do with placement are not judged.
    """
    kind, version = obj.get("kind"), obj.get("apiVersion")
    if not isinstance(kind, str) or not isinstance(version, str):
        return
    known = _READ.get(kind.lower())
    right = _OURS.get(known or "", "v1")
    group, right_group = (text.rpartition("/")[0] for text in (version, right))
    if known is None:
        if version == names.API_VERSION and nearest(kind, [names.KIND]):
            yield _refused("kind", f'"{kind}" is not known{did_you_mean(kind, [names.KIND])}')
        return
    if known != kind and group == right_group:
        yield _refused("kind", f'"{kind}" is not known, case matters; write {known}')
    if known in _OURS and version != right and _meant(group, right_group):
        yield _refused("apiVersion", f'"{version}" is not served; write {right}')
    elif known == kind and version == right:
        yield from _of_kind(kind, obj)


def _meant(group: str, right: str) -> bool:
    """Whether a group stands for ours: other groups may well have a kind of that name."""
    return group in ("", right) or bool(nearest(group, [right]))


def _of_kind(kind: str, obj: Mapping[str, Any]) -> Iterator[Finding]:
    name = mapping_or_empty(obj.get("metadata")).get("name")
    if kind in (names.KIND, "Namespace") and isinstance(name, str) and name:
        is_class = kind == names.KIND
        why = why_not_dns_subdomain(name) if is_class else why_not_dns_label(name)
        if is_class and why is None and len(name) > _LONGEST_LABEL:
            why = f"has {len(name)} characters; the label that names a class takes 63"
        if why is not None:
            yield _refused("metadata.name", f'"{name}" {why}')
    if kind == "Tenant":
        for key in mapping_or_empty(obj.get("spec")):
            if key != "schedulingClass" and nearest(str(key), ["schedulingClass"]):
                message = f'unknown field "spec.{key}"; did you mean schedulingClass?'
                yield Finding(Reason.UNSUPPORTED_FIELD, message)


def _refused(path: str, message: str) -> Finding:
    return Finding(Reason.INVALID_OBJECT, message, Severity.ERROR, path)


def stray_keys(metadata: Mapping[str, Any]) -> Iterator[Finding]:
    """Labels and annotations of a namespace that look like ours and are none.

    Args:
        metadata: of the namespace.
    """
    for field, ours, others in (
        ("labels", _LABELS, _ANNOTATIONS),
        ("annotations", _ANNOTATIONS, _LABELS),
    ):
        for key in sorted(map(str, mapping_or_empty(metadata.get(field)))):
            if key in ours:
                continue
            if key in others:
                other = "an annotation" if field == "labels" else "a label"
                yield _ignored(field, f'"{key}" is ignored here; it is {other}')
            elif key.startswith(f"{names.PREFIX}/"):
                near = did_you_mean(key, ours) or did_you_mean(key, others)
                yield _ignored(field, f'"{key}" is not known and ignored{near}')
            elif _prefix_is_like_ours(key):
                yield _ignored(field, f'"{key}" is ignored{did_you_mean(key, ours)}')


def _prefix_is_like_ours(key: str) -> bool:
    """A slip in the prefix: `schedule.cozystack.io/scheduling-class`."""
    prefix, _, name = key.rpartition("/")
    return name == names.CLASS_KEY.rpartition("/")[2] and bool(nearest(prefix, [names.PREFIX]))


def _ignored(field: str, message: str) -> Finding:
    return Finding(Reason.UNKNOWN_KEY, message, path=f"metadata.{field}")
