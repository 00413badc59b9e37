"""How long filter waits for pods whose node is about to be known."""

import asyncio
import time

from schedclass.domain.scheduling import Pod
from schedclass.scheduler.inflight import (
    MAX_AHEAD,
    MAX_REMEMBERED,
    OPEN_SECONDS,
    SETTLE_SECONDS,
    InFlight,
)


def pod(name: str) -> Pod:
    return Pod(uid=name, namespace="team", name=name)


def anyone(_: Pod) -> bool:
    return True


async def test_nobody_on_the_way_costs_no_wait() -> None:
    assert await InFlight().wait_for(anyone, seconds=60) == 0


async def test_the_wait_ends_when_the_node_of_the_other_is_known() -> None:
    flight = InFlight()
    flight.passed(pod("one"))
    waiting = asyncio.create_task(flight.wait_for(anyone, seconds=60))
    await asyncio.sleep(0)
    assert not waiting.done()
    flight.settled("one")
    assert await waiting == 1


async def test_those_who_do_not_matter_are_not_waited_for() -> None:
    flight = InFlight()
    flight.passed(pod("one"))
    assert await flight.wait_for(lambda other: other.name == "two", seconds=60) == 0


async def test_one_who_never_comes_is_waited_for_once() -> None:
    flight = InFlight()
    flight.passed(pod("one"))
    assert await flight.wait_for(anyone, seconds=0.01) == 1
    assert await flight.wait_for(anyone, seconds=60) == 0
    assert flight.pod("one") is not None


async def test_one_who_passed_long_ago_is_not_reckoned_with() -> None:
    now = [0.0]
    flight = InFlight(clock=lambda: now[0])
    flight.passed(pod("one"), ["n1"])
    now[0] = OPEN_SECONDS + 1
    assert flight.placed(anyone) == []
    flight.passed(pod("one"))
    now[0] += OPEN_SECONDS + 1
    assert await flight.wait_for(anyone, seconds=60) == 0


async def test_of_one_that_was_left_a_single_node_it_is_known_where_it_goes() -> None:
    flight = InFlight()
    flight.passed(pod("one"), ["n1"])
    assert flight.placed(anyone) == [pod("one").on("n1")]
    flight.passed(pod("two"), ["n1", "n2"])
    assert flight.placed(anyone) is None
    assert flight.placed(lambda other: other.name == "one") == [pod("one").on("n1")]


async def test_those_who_wait_for_one_another_are_no_hope() -> None:
    now = [0.0]
    flight = InFlight(clock=lambda: now[0])
    flight.passed(pod("one"), ["n1"])
    assert flight.may_come(anyone)
    now[0] = SETTLE_SECONDS + 0.1
    assert not flight.may_come(anyone)
    flight.arrived("one", stuck=False)
    assert flight.may_come(anyone)
    flight.arrived("one", stuck=True)
    assert not flight.may_come(anyone)


async def test_only_so_many_go_ahead_of_one_that_leans_on_them() -> None:
    flight = InFlight()
    for number in range(MAX_AHEAD + 1):
        flight.passed(pod(str(number)), ["n1"])
    waiting = asyncio.create_task(flight.wait_for_few(anyone, seconds=60))
    await asyncio.sleep(0)
    assert not waiting.done()
    flight.settled("3")
    await waiting
    flight.passed(pod("more"), ["n1"])
    await flight.wait_for_few(anyone, seconds=0.01)  # nobody comes: once is enough
    await flight.wait_for_few(anyone, seconds=60)


async def test_a_new_attempt_replaces_the_old_one() -> None:
    flight = InFlight()
    flight.passed(pod("one"))
    flight.passed(pod("one"))
    waiting = asyncio.create_task(flight.wait_for(anyone, seconds=60))
    await asyncio.sleep(0)
    flight.forget("one")
    assert await waiting == 1
    assert flight.pod("one") is None


async def test_what_is_remembered_is_bounded() -> None:
    flight = InFlight()
    for number in range(MAX_REMEMBERED + 10):
        flight.passed(pod(str(number)))
    assert len(flight) == MAX_REMEMBERED
    assert flight.pod("0") is None
    began = time.monotonic()
    assert await flight.wait_for(lambda other: other.name == "1", seconds=60) == 0
    assert time.monotonic() - began < 10
