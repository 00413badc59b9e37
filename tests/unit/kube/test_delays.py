"""Pauses between attempts, and waits that end."""

import asyncio

import pytest

from schedclass.kube.delays import Delays, doubled, happens_within


def test_pauses_double_up_to_the_longest_and_start_over() -> None:
    delays = Delays(1, 5)
    pauses = [delays.next() for _ in range(5)]
    for pause, expected in zip(pauses, [1, 2, 4, 5, 5], strict=True):
        assert 0.8 * expected <= pause <= 1.2 * expected
    delays.reset()
    assert delays.next() <= 1.2


@pytest.mark.parametrize("times", [10, 1_100, 1_000_000])
def test_what_fails_for_days_is_tried_again_as_often_as_ever(times: int) -> None:
    assert doubled(0.5, times, longest=60) == 60


async def test_waiting_for_what_does_not_happen_ends() -> None:
    event = asyncio.Event()
    assert not await happens_within(event, 0.001)
    event.set()
    assert await happens_within(event, None)
