"""How long a domain is kept for a pod."""

import asyncio

from schedclass.domain.scheduling import Pod
from schedclass.scheduler.promises import Promises

POD = Pod(uid="u", namespace="team", name="db")


async def test_a_promise_that_nobody_takes_up_ends_by_itself() -> None:
    ended = asyncio.Event()
    promises = Promises(ended.set, seconds=0.01)
    promises.make(POD, "n1")
    assert [pod.node_name for pod in promises.pods] == ["n1"]
    async with asyncio.timeout(5):
        await ended.wait()
    assert not promises.pods
    assert promises.version == 1


async def test_a_withdrawn_promise_does_not_end_the_one_that_follows_it() -> None:
    promises = Promises(lambda: None, seconds=60)
    promises.make(POD, "n1")
    assert promises.withdraw("u") == "n1"
    promises.make(POD, "n2")
    assert promises.withdraw("somebody else") == ""
    assert [pod.node_name for pod in promises.pods] == ["n2"]
    assert promises.withdraw("u") == "n2"
