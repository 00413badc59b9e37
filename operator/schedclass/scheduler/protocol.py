"""The wire format between kube-scheduler and its extender: bytes in, bytes out.

Source: `k8s.io/kube-scheduler/extender/v1/types.go`. The outer structs have no JSON tags, so their
fields are spelt as in Go; lists are always written, since Go reads an absent one as "no nodes".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

MAX_BODY_BYTES: Final = 64 << 20
"""Longest request: names of 50,000 nodes take 2 MB, an object of the API server at most a few."""


class MalformedRequestError(Exception):
    """The request is none of kube-scheduler's; the message is one sentence that names the field."""


@dataclass(frozen=True, slots=True)
class NodesRequest:
    """What filter and prioritize receive (`ExtenderArgs` with `nodeCacheCapable`).

    Attributes:
        pod: the raw Pod.
        names: the candidates.
    """

    pod: Mapping[str, Any]
    names: list[str]


@dataclass(frozen=True, slots=True)
class BindRequest:
    """What bind receives (`ExtenderBindingArgs`)."""

    namespace: str
    name: str
    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods to be evicted from one node.

    Attributes:
        uids: theirs.
        violations: how many PodDisruptionBudgets the eviction would break.
    """

    uids: tuple[str, ...]
    violations: int


@dataclass(frozen=True, slots=True)
class PreemptRequest:
    """What preempt receives (`ExtenderPreemptionArgs`).

    Attributes:
        pod: the raw Pod that is to get the place.
        victims: per node.
    """

    pod: Mapping[str, Any]
    victims: dict[str, Victims]


def read_nodes(body: bytes) -> NodesRequest:
    """Read the arguments of filter and prioritize.

    Raises:
        MalformedRequestError: see there.
    """
    args = _decode(body)
    if args.get("NodeNames") is None and args.get("Nodes") is not None:
        raise MalformedRequestError(
            "Nodes: whole nodes were sent; set nodeCacheCapable: true for this extender"
        )
    return NodesRequest(_pod(args), _strings(args.get("NodeNames"), "NodeNames"))


def read_bind(body: bytes) -> BindRequest:
    """Read the arguments of bind.

    Raises:
        MalformedRequestError: see there.
    """
    args = _decode(body)
    namespace, name, uid, node = (
        _text(args, field) for field in ("PodNamespace", "PodName", "PodUID", "Node")
    )
    return BindRequest(namespace, name, uid, node)


def read_preempt(body: bytes) -> PreemptRequest:
    """Read the arguments of preempt, with victims by uid or as whole pods.

    Raises:
        MalformedRequestError: see there.
    """
    args = _decode(body)
    meta = _object(args.get("NodeNameToMetaVictims"), "NodeNameToMetaVictims")
    whole = _object(args.get("NodeNameToVictims"), "NodeNameToVictims")
    victims = {
        name: _victims(value, f"NodeNameToMetaVictims[{name!r}]") for name, value in meta.items()
    }
    for name, value in whole.items():
        victims.setdefault(name, _victims(value, f"NodeNameToVictims[{name!r}]"))
    return PreemptRequest(_pod(args), victims)


def filter_answer(names: Sequence[str], unresolvable: Mapping[str, str]) -> bytes:
    """`ExtenderFilterResult`.

    Args:
        names: the nodes that pass, all of them among those asked for.
        unresolvable: reasons by node. Never in `FailedNodes`: kube-scheduler would try to preempt
            there, and an eviction cannot help against a class (its dry run does not ask us).
    """
    return orjson.dumps(
        {
            "Nodes": None,
            "NodeNames": names,
            "FailedNodes": {},
            "FailedAndUnresolvableNodes": unresolvable,
            "Error": "",
        }
    )


def filter_error(error: str) -> bytes:
    """`ExtenderFilterResult` of an attempt that is to be made again, as time heals the reason."""
    return orjson.dumps(
        {
            "Nodes": None,
            "NodeNames": [],
            "FailedNodes": {},
            "FailedAndUnresolvableNodes": {},
            "Error": error,
        }
    )


def prioritize_answer(scores: Iterable[tuple[str, int]]) -> bytes:
    """`HostPriorityList`; empty where no node is better than another."""
    return orjson.dumps([{"Host": name, "Score": score} for name, score in scores])


def bind_answer(error: str = "") -> bytes:
    """`ExtenderBindingResult`; an error makes kube-scheduler try the pod again."""
    return orjson.dumps({"Error": error})


def preempt_answer(victims: Mapping[str, Victims]) -> bytes:
    """`ExtenderPreemptionResult`, always with victims by uid."""
    return orjson.dumps(
        {
            "NodeNameToMetaVictims": {
                name: {
                    "Pods": [{"UID": uid} for uid in of_node.uids],
                    "NumPDBViolations": of_node.violations,
                }
                for name, of_node in victims.items()
            }
        }
    )


def _decode(body: bytes) -> Mapping[str, Any]:
    try:
        args = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedRequestError(f"the request is not JSON: {error}") from None
    if not isinstance(args, dict):
        raise MalformedRequestError("the request is not a JSON object")
    return args


def _pod(args: Mapping[str, Any]) -> Mapping[str, Any]:
    pod = args.get("Pod")
    if not isinstance(pod, dict):
        raise MalformedRequestError("Pod: must be a pod")
    return pod


def _object(value: object, field: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedRequestError(f"{field}: must be an object")
    return value


def _strings(value: object, field: str) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(type(item) is str for item in value):
        raise MalformedRequestError(f"{field}: must be a list of strings")
    return value


def _text(args: Mapping[str, Any], field: str) -> str:
    value = args.get(field)
    if not isinstance(value, str) or not value:
        raise MalformedRequestError(f"{field}: must be a string that is not empty")
    return value


def _victims(value: object, field: str) -> Victims:
    fields = _object(value, field)
    pods = fields.get("Pods") or []
    violations = fields.get("NumPDBViolations") or 0
    if not isinstance(pods, list) or not isinstance(violations, int):
        raise MalformedRequestError(f"{field}: must have a list Pods and a number NumPDBViolations")
    return Victims(tuple(_uid(pod, field) for pod in pods), violations)


def _uid(pod: object, field: str) -> str:
    fields = _object(pod, f"{field}.Pods")
    uid = fields.get("UID") or _object(fields.get("metadata"), f"{field}.Pods.metadata").get("uid")
    if not isinstance(uid, str) or not uid:
        raise MalformedRequestError(f"{field}.Pods: must have a UID each")
    return uid
