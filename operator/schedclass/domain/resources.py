"""Resources that pods ask for and nodes have, as kube-scheduler counts them.

This is a model of the in-tree plugins NodeResourcesFit and NodePorts, for answers before a
scheduler has been asked. Amounts are integers: thousandths for `cpu`, whole units for the rest.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from schedclass.domain.rawjson import mapping, mappings

Amounts = Mapping[str, int]
"""Resource name to amount: cpu in thousandths, everything else in its unit."""

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
_HUGE_PAGES: Final = "hugepages-"

_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++))"
    r"(?:(?P<unit>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]++))?"
)
_UNITS: Final = {
    **{unit: Fraction(10) ** (3 * power) for power, unit in enumerate(("n", "u", "m"), -3)},
    **{unit: Fraction(10) ** (3 * power) for power, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Fraction(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
}
_INT64_MAX: Final = 2**63 - 1
_USUAL_LENGTH: Final = 64  # characters; longer texts are read, but not remembered
_EXACT_LENGTH: Final = 1024
_EXACT_EXPONENT: Final = 999


class QuantityError(ValueError):
    """Text that is no quantity of the Kubernetes API; the message names it."""


def _parse(text: str, thousandths: bool) -> int | None:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    digits = match["number"].strip("+-.0")
    exponent = (match["exponent"] or "0").lstrip("+")
    if not digits:
        return 0
    if len(exponent.lstrip("-0")) > len(str(_EXACT_EXPONENT)):
        return 1 if exponent.startswith("-") else 0
    if len(text) > _EXACT_LENGTH:
        return 0
    number = Fraction(match["number"])
    if match["unit"]:
        number *= _UNITS[match["unit"]]
    number *= Fraction(10) ** int(exponent)
    amount = -int(-(number * (1000 if thousandths else 1)) // 1)
    if amount > _INT64_MAX:
        return _INT64_MAX if (match["unit"] or "").endswith("i") and not thousandths else 0
    return amount


_remembered = lru_cache(maxsize=4096)(_parse)


def parse_quantity(value: object, *, thousandths: bool) -> int:
    """Read a quantity, rounded up (`resource.Quantity`).

    The API server takes amounts that do not fit into 64 bits, such as `1e402`. To kube-scheduler
    and the kubelet they are nothing (`Quantity.Value` overflows to 0), so they are here; only those
    with a binary unit are capped.

    Args:
        value: text such as `500m`, `1Gi`, `1e3`, or a number as YAML may have it.
        thousandths: give thousandths instead of whole units.

    Raises:
        QuantityError: if it is none.
    """
    usable = isinstance(value, int | float | str) and not isinstance(value, bool)
    text = str(value) if usable else ""
    read = _remembered if len(text) <= _USUAL_LENGTH else _parse
    parsed = read(text, thousandths)
    if parsed is None:
        raise QuantityError(f"{str(value)[:40]!r} is no quantity such as 500m or 1Gi")
    return parsed


def parse_amounts(raw: object, path: str) -> dict[str, int]:
    """Read a ResourceList.

    Raises:
        ValueError: with the field, if a part of it cannot be read.
    """
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        raise ValueError(f"{path}: must be a map of quantities")  # noqa: TRY004 - input, not code
    amounts: dict[str, int] = {}
    for name, value in raw.items():
        try:
            amounts[str(name)] = parse_quantity(value, thousandths=name == CPU)
        except QuantityError as error:
            raise ValueError(f'{path}["{name}"]: {error}') from error
    return amounts


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node that a pod takes; an empty address means all addresses."""

    address: str
    protocol: str
    port: int

    def conflicts(self, other: "HostPort") -> bool:
        """Whether both cannot be taken on one node (NodePorts plugin)."""
        overlap = self.address == other.address or "" in (self.address, other.address)
        return overlap and (self.protocol, self.port) == (other.protocol, other.port)


@dataclass(frozen=True, slots=True)
class Demand:
    """What a pod takes of its node.

    Attributes:
        requests: resources by name, without zeros.
        ports: ports of the node.
        gated: it has scheduling gates, so no scheduler looks at it yet.
        score_cpu, score_memory: what scoring counts for it, where 100m and 200Mi stand in for
            each container without a request (kube-scheduler's `DefaultMilliCPURequest`).
    """

    requests: Amounts
    ports: tuple[HostPort, ...] = ()
    gated: bool = False
    score_cpu: int = 0
    score_memory: int = 0


_SCORED_DEFAULTS: Final = {CPU: 100, MEMORY: 200 * 1024 * 1024}


def parse_demand(spec: Mapping[str, Any]) -> Demand:
    """Read what a pod spec takes.

    Containers add up, restartable init containers (sidecars) stay, other init containers run one
    by one beside the sidecars before them (KEP-753); requests of the whole pod win over those of
    its containers (KEP-2837), and its limits stand in where neither has any; overhead comes on top.

    Raises:
        ValueError: with the field, if a part of it cannot be read.
    """
    containers = mappings(spec.get("containers"), "spec.containers")
    inits = mappings(spec.get("initContainers"), "spec.initContainers")
    requests = _container_requests(containers, inits, {})
    scored = _container_requests(containers, inits, _SCORED_DEFAULTS)
    whole = _whole_requests(spec, requests)
    overhead = parse_amounts(spec.get("overhead"), "spec.overhead")
    for amounts in (requests, scored):
        amounts.update(whole)
        _add(amounts, overhead)
    ports = [
        port
        for path, container in [
            *_each("spec.containers", containers),
            *(found for found in _each("spec.initContainers", inits) if _restarts(found[1])),
        ]
        for port in _ports(path, container, host_network=spec.get("hostNetwork") is True)
    ]
    return Demand(
        requests={name: amount for name, amount in requests.items() if amount},
        ports=tuple(dict.fromkeys(ports)),
        gated=bool(spec.get("schedulingGates")),
        score_cpu=scored.get(CPU, 0),
        score_memory=scored.get(MEMORY, 0),
    )


def _container_requests(
    containers: Iterable[Mapping[str, Any]],
    inits: Iterable[Mapping[str, Any]],
    defaults: Amounts,
) -> dict[str, int]:
    running: dict[str, int] = {}
    for path, container in _each("spec.containers", containers):
        _add(running, _requests(path, container, defaults))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for path, container in _each("spec.initContainers", inits):
        asked = _requests(path, container, defaults)
        if _restarts(container):
            _add(running, asked)
            _add(sidecars, asked)
            asked = dict(sidecars)
        else:
            asked = dict(asked)
            _add(asked, sidecars)
        _raise_to(peak, asked)
    _raise_to(running, peak)
    return running


def _whole_requests(spec: Mapping[str, Any], asked: Amounts) -> dict[str, int]:
    """What the pod as a whole asks for, given what its containers do (`defaultPodRequests`)."""
    whole = mapping(spec.get("resources"), "spec.resources")
    requests = parse_amounts(whole.get("requests"), "spec.resources.requests")
    for name, amount in parse_amounts(whole.get("limits"), "spec.resources.limits").items():
        of_pods = name in (CPU, MEMORY) or name.startswith(_HUGE_PAGES)
        if of_pods and name not in requests and name not in asked:
            requests[name] = amount
    return requests


_Container = tuple[str, int]
"""The list and the number of a container in it; made to text only for an error."""


def _each(
    path: str, containers: Iterable[Mapping[str, Any]]
) -> Iterable[tuple[_Container, Mapping[str, Any]]]:
    return (((path, number), container) for number, container in enumerate(containers))


def _requests(path: _Container, container: Mapping[str, Any], defaults: Amounts) -> Amounts:
    try:
        resources = mapping(container.get("resources"), "resources")
        asked = parse_amounts(resources.get("limits"), "resources.limits")
        # The API server copies limits to requests that are left out (SetDefaults_Pod).
        asked.update(parse_amounts(resources.get("requests"), "resources.requests"))
    except ValueError as error:
        raise _of_container(path, container, error) from error
    return {**defaults, **asked}


def _of_container(path: _Container, container: Mapping[str, Any], error: ValueError) -> ValueError:
    name = f" (container {container['name']})" if container.get("name") else ""
    return ValueError(f"{path[0]}[{path[1]}].{error}{name}")


def _restarts(container: Mapping[str, Any]) -> bool:
    return container.get("restartPolicy") == "Always"


def _ports(
    path: _Container, container: Mapping[str, Any], *, host_network: bool
) -> Iterable[HostPort]:
    try:
        ports = mappings(container.get("ports"), "ports")
    except ValueError as error:
        raise _of_container(path, container, error) from error
    for port in ports:
        number = port.get("hostPort") or (port.get("containerPort") if host_network else None)
        if isinstance(number, int) and number > 0:
            address = str(port.get("hostIP") or "")
            yield HostPort(
                "" if address in ("0.0.0.0", "::") else address,  # noqa: S104 - compared only
                str(port.get("protocol") or "TCP"),
                number,
            )


def _add(total: dict[str, int], more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: dict[str, int], least: Amounts) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, 0), amount)
