"""Quantities and what a pod takes of its node."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedclass.domain.resources import (
    HostPort,
    QuantityError,
    parse_demand,
    parse_quantity,
)

UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


@given(st.integers(0, 8 * 10**6), st.sampled_from(sorted(UNITS)), st.booleans())
def test_a_quantity_is_its_number_times_its_unit(number: int, unit: str, thousandths: bool) -> None:
    factor = 1000 if thousandths else 1
    read = parse_quantity(f"{number}{unit}", thousandths=thousandths)
    assert read == number * UNITS[unit] * factor


@given(st.integers(0, 10**12), st.integers(0, 9))
def test_a_part_of_a_unit_is_rounded_up(digits: int, places: int) -> None:
    text = f"{digits:0{places + 1}d}"
    text = f"{text[:-places]}.{text[-places:]}" if places else text
    exact = Fraction(digits, 10**places)
    assert parse_quantity(text, thousandths=False) == -(-exact // 1)


@pytest.mark.parametrize(
    ("text", "thousandths"),
    [
        ("500m", 500),
        ("0.5", 500),
        (".5", 500),
        ("5.", 5000),
        ("+1", 1000),
        ("1e3", 10**6),
        ("2E2", 2 * 10**5),
        ("1P", 10**18),
        ("100n", 1),
        ("1u", 1),
    ],
)
def test_the_forms_of_the_api_are_read(text: str, thousandths: int) -> None:
    assert parse_quantity(text, thousandths=True) == thousandths


@pytest.mark.parametrize("value", ["", "lots", "1 Gi", "1gi", "--1", "1e", "٣", True, None, [], {}])
def test_what_is_no_quantity_is_refused(value: object) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(value, thousandths=True)


@pytest.mark.parametrize(
    ("text", "whole", "thousandths"),
    [
        ("1e18", 10**18, 0),
        ("1e402", 0, 0),
        ("10e399", 0, 0),
        ("1e99999", 0, 0),
        ("1e2147483646", 0, 0),
        ("10E", 0, 0),
        ("9" * 200, 0, 0),
        ("9" * 5000, 0, 0),
        ("0e99999", 0, 0),
        ("1e-9999", 1, 1),
        ("9223372036854775807", 2**63 - 1, 0),
        ("8Ei", 2**63 - 1, 0),
    ],
)
def test_what_does_not_fit_into_64_bits_is_nothing_as_to_kube_scheduler(
    text: str, whole: int, thousandths: int
) -> None:
    """As `Value` and `MilliValue` of apimachinery 0.36; the API server accepts all of them."""
    assert parse_quantity(text, thousandths=False) == whole
    assert parse_quantity(text, thousandths=True) == thousandths


def container(cpu: str | None = None, **more: Any) -> dict[str, Any]:
    resources = {"resources": {"requests": {"cpu": cpu}}} if cpu else {}
    return {"name": "c", **resources, **more}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container("1"), container("500m")]}, 1500),
        ({"containers": [container("1")], "initContainers": [container("3")]}, 3000),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("1", restartPolicy="Always"), container("3")],
            },
            4000,
        ),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("3"), container("1", restartPolicy="Always")],
            },
            3000,
        ),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "2"}}}, 2000),
        ({"containers": [{"resources": {"limits": {"cpu": "2"}}}]}, 2000),
        ({"containers": [container()]}, 0),
        ({"containers": [container()], "resources": {"limits": {"cpu": "9"}}}, 9000),
        ({"containers": [container("1")], "resources": {"limits": {"cpu": "9"}}}, 1000),
        ({"containers": [container("0")], "resources": {"limits": {"cpu": "9"}}}, 0),
        (
            {
                "containers": [container()],
                "initContainers": [container("2")],
                "resources": {"limits": {"cpu": "9"}},
            },
            2000,
        ),
        (
            {"containers": [], "resources": {"limits": {"cpu": "9"}, "requests": {"cpu": "3"}}},
            3000,
        ),
        (
            {
                "containers": [container()],
                "resources": {"limits": {"cpu": "9"}},
                "overhead": {"cpu": "1"},
            },
            10000,
        ),
    ],
)
def test_requests_add_up_as_the_scheduler_adds_them(spec: dict[str, Any], cpu: int) -> None:
    assert parse_demand(spec).requests.get("cpu", 0) == cpu


def test_limits_of_a_pod_stand_in_for_what_pods_can_ask_for_as_a_whole() -> None:
    limits = {"memory": "1Ki", "hugepages-2Mi": "2Mi", "example.com/gpu": "1", "cpu": "9"}
    demand = parse_demand({"containers": [container("1")], "resources": {"limits": limits}})
    assert demand.requests == {"cpu": 1000, "memory": 1024, "hugepages-2Mi": 2 * 1024 * 1024}
    assert (demand.score_cpu, demand.score_memory) == (1000, 1024)


def test_limits_of_a_pod_that_cannot_be_read_are_named() -> None:
    with pytest.raises(ValueError, match=r'spec\.resources\.limits\["cpu"\]'):
        parse_demand({"containers": [], "resources": {"limits": {"cpu": "x"}}})


def test_ports_of_the_host_conflict_by_address_protocol_and_number() -> None:
    def port(**fields: Any) -> HostPort:
        spec = {"containers": [{"ports": [{"containerPort": 80, **fields}]}]}
        return parse_demand(spec).ports[0]

    everywhere = port(hostPort=80)
    assert everywhere.conflicts(port(hostPort=80, hostIP="10.0.0.1"))
    assert port(hostPort=80, hostIP="::").conflicts(everywhere)
    assert not port(hostPort=80, hostIP="10.0.0.1").conflicts(port(hostPort=80, hostIP="10.0.0.2"))
    assert not everywhere.conflicts(port(hostPort=80, protocol="UDP"))
    assert not everywhere.conflicts(port(hostPort=81))
    assert parse_demand({"containers": [{"ports": [{"containerPort": 80}]}]}).ports == ()
    network = {"hostNetwork": True, "containers": [{"ports": [{"containerPort": 80}]}]}
    assert parse_demand(network).ports == (everywhere,)
