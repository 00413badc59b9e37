"""Leader election by a `coordination.k8s.io/v1` Lease, after client-go's `leaderelection`.

Safety rests on two rules. Another holder is respected for the lease duration after *we last saw its
record change*, by our own monotonic clock, never by its wall clock. A leader gives up `deadline`
seconds after it *began* its last successful renewal, by a timer that no slow reply can hold up.
As the deadline is shorter than the duration, the old leader has stopped before a new one starts.

Connections can go half dead, all at once. An attempt that hangs closes its own, so the next needs a
new one; from a pool that others use it would get the next half-dead one, until the deadline.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from schedclass.kube import errors
from schedclass.kube.client import KubeClient, resource_path
from schedclass.kube.delays import jittered
from schedclass.kube.transport import Json

logger = logging.getLogger(__name__)

API_VERSION: Final = "coordination.k8s.io/v1"
RELEASE_SECONDS: Final = 2.0


class LeadershipLost(Exception):  # noqa: N818 - a state, and the reason to exit
    """The Lease could not be renewed in time or is somebody else's; the process must exit."""


@dataclass(frozen=True, slots=True)
class LeaseTimings:
    """Seconds of an election; the defaults are those of kube-controller-manager.

    Attributes:
        duration: for which the others respect a record that does not change; whole seconds.
        deadline: after the beginning of the last successful renewal the leader gives up.
        retry: between two attempts.
    """

    duration: int = 15
    deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        """Refuse figures under which two could lead at once, or one could never renew."""
        if not 0 < self.retry < self.deadline < self.duration:
            raise ValueError(
                f"lease timings must satisfy 0 < retry ({self.retry}) < deadline "
                f"({self.deadline}) < duration ({self.duration})"
            )


class LeaseElector:
    """One candidate for one Lease.

    Attributes:
        identity: our name in `holderIdentity`, different for each process.
        holder: whom the Lease named when last seen; empty if nobody or not yet seen.
        errors: failed attempts, not counting those that another holder's claim ended.
        last_error: the last of them in words.
        heard_at: `clock` seconds of the last answer of the API server; None before the first.
    """

    def __init__(  # noqa: PLR0913 - each a choice of its own, all by keyword
        self,
        client: KubeClient,
        *,
        namespace: str,
        name: str,
        identity: str,
        timings: LeaseTimings | None = None,
        on_change: Callable[[bool], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is requested before `run`.

        Args:
            client: who asks; needs get, create and update of this Lease.
            namespace: of the Lease.
            name: of the Lease.
            identity: the Pod's name with something unique to this start of the process.
            timings: see `LeaseTimings`.
            on_change: called with True when we begin to lead and with False when we cease to, for
                whatever reason.
            clock: monotonic seconds.
        """
        self.identity = identity
        self.holder = ""
        self.errors = 0
        self.last_error = ""
        self.heard_at: float | None = None
        self._client = client
        self._own = client
        self._namespace = namespace
        self._name = name
        self._collection = resource_path(API_VERSION, "leases", namespace=namespace)
        self._path = resource_path(API_VERSION, "leases", namespace=namespace, name=name)
        self._timings = timings or LeaseTimings()
        self._on_change = on_change or (lambda _leading: None)
        self._clock = clock
        self._leading = False
        self._expires = 0.0
        self._lease: Json | None = None
        self._record: tuple[object, ...] | None = None
        self._respected_until = 0.0
        self._unsure = False

    @property
    def leading(self) -> bool:
        """Whether we may act as the leader at this very moment."""
        return self._leading and self._clock() < self._expires

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for leadership, then lead.

        Args:
            lead: the leader's work, cancelled when leadership ends. It should stop within
                `duration - deadline` seconds of that.

        Returns:
            When `lead` returned by itself; the Lease is released then.

        Raises:
            LeadershipLost: `lead` has been cancelled; whether it has already stopped is not sure
                if it holds its cancellation up, so exit the process.
            asyncio.CancelledError: `lead` has stopped and the Lease is released.
            Exception: what `lead` raised; the Lease is released.
        """
        async with self._client.apart() as self._own:
            await self._run(lead)

    async def _run(self, lead: Callable[[], Awaitable[None]]) -> None:
        try:
            await self._acquire()
        except asyncio.CancelledError:
            if self._unsure or self.holder == self.identity:
                await self._release()
            raise
        self._change(leading=True)
        work = asyncio.ensure_future(lead())
        keeping = asyncio.create_task(self._keep(), name=f"renew {self._path}")
        expiry = asyncio.create_task(self._wait_for_expiry(), name=f"expiry {self._path}")
        lost = False
        try:
            await asyncio.wait({work, keeping, expiry}, return_when=asyncio.FIRST_COMPLETED)
            lost = not work.done()
        finally:
            self._change(leading=False)
            for task in (work, keeping, expiry):
                task.cancel()
            stopped = await self._stopped(work)
            for end in await asyncio.gather(keeping, expiry, return_exceptions=True):
                if isinstance(end, Exception):
                    logger.error("%s: a fault of our own", self._path, exc_info=end)
            if not lost and stopped:
                await self._release()
        if lost:
            raise LeadershipLost(f"{self._path}: {self._why_lost()}")
        await work

    async def _stopped(self, work: asyncio.Future[None]) -> bool:
        """Wait for the cancelled work while nobody else can lead; False if it does not stop."""
        grace = self._timings.duration - self._timings.deadline
        _, pending = await asyncio.wait({work}, timeout=grace)
        if pending:
            logger.error("%s: the leader's work does not stop within %.1f s", self._path, grace)
        elif not work.cancelled() and work.exception() is not None:
            logger.debug("%s: the leader's work ended by a failure", self._path)
        return not pending

    def _why_lost(self) -> str:
        if self.holder not in ("", self.identity):
            return f"now held by {self.holder}"
        return f"not renewed within {self._timings.deadline} s ({self.last_error or 'no reply'})"

    def _change(self, *, leading: bool) -> None:
        self._leading = leading
        logger.info(
            "%s: %s %s", self._path, self.identity, "leads" if leading else "ceased to lead"
        )
        self._on_change(leading)

    async def _acquire(self) -> None:
        while not await self._attempt(self._timings.deadline):  # noqa: ASYNC110 - a remote state
            await asyncio.sleep(jittered(self._timings.retry))

    async def _keep(self) -> None:
        """Renew for ever; return when the Lease names another holder."""
        while True:
            await asyncio.sleep(self._timings.retry)
            # Two attempts must fit: one connection that hangs must not cost the leadership.
            left = self._expires - self._clock()
            if not await self._attempt(min(left, self._timings.deadline / 2)) and (
                self.holder not in ("", self.identity)
            ):
                return

    async def _wait_for_expiry(self) -> None:
        while (left := self._expires - self._clock()) > 0:  # noqa: ASYNC110 - time is the event
            await asyncio.sleep(left)

    async def _attempt(self, limit: float) -> bool:
        """Try once to acquire or renew; whether we hold the Lease by that."""
        began = self._clock()
        self._unsure = True  # until its answer is here, a write may have arrived or not
        try:
            async with asyncio.timeout(max(limit, 0.0)):
                held = await self._claim()
        except errors.Conflict:
            # Somebody else wrote first; what they wrote is seen at the next attempt.
            self._lease = None
            self._unsure = False
            self.heard_at = self._clock()
            return False
        except (errors.ApiError, errors.Unreachable, TimeoutError) as error:
            self._lease = None  # a write without an answer may have changed the version
            self.errors += 1
            self.last_error = str(error) or "timed out"
            logger.warning("%s: attempt failed: %s", self._path, self.last_error)
            return False
        self._unsure = False
        self.heard_at = self._clock()
        if not held:
            return False
        # Counted from before the request: the others may have seen the record at any time since.
        self._expires = began + self._timings.deadline
        return self._clock() < self._expires

    async def _claim(self) -> bool:
        if self._lease is None:
            found = await self._own.find(self._path)
            if found is None:
                # Whose Lease somebody deleted may still lead for as long as we respect it.
                if self._respects_another():
                    return False
                self._observe(await self._own.create(self._collection, self._new_lease()))
                return True
            self._observe(found)
        if self._lease is None or self._respects_another():
            self._lease = None
            return False
        self._observe(await self._own.replace(self._path, self._claimed(self._lease)))
        return True

    def _respects_another(self) -> bool:
        return self.holder not in ("", self.identity) and self._clock() < self._respected_until

    def _observe(self, lease: Json) -> None:
        """Note what the Lease says, and when that last changed by our own clock."""
        spec = lease.get("spec") or {}
        record = tuple(spec.get(key) for key in ("holderIdentity", "renewTime", "leaseTransitions"))
        if record != self._record:
            self._record = record
            duration = spec.get("leaseDurationSeconds") or self._timings.duration
            self._respected_until = self._clock() + float(duration)
        self.holder = str(spec.get("holderIdentity") or "")
        self._lease = lease

    def _new_lease(self) -> Json:
        return {
            "apiVersion": API_VERSION,
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._spec({"leaseTransitions": 0, "acquireTime": _micro_time()}),
        }

    def _claimed(self, lease: Json) -> Json:
        spec = dict(lease.get("spec") or {})
        if self.holder != self.identity:
            spec["acquireTime"] = _micro_time()
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        return {**lease, "spec": self._spec(spec)}

    def _spec(self, spec: Json) -> Json:
        return {
            **spec,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._timings.duration,
            "renewTime": _micro_time(),
        }

    async def _release(self) -> None:
        """Let the next leader begin at once; at worst it waits for the lease duration."""
        with suppress(errors.ApiError, errors.Unreachable, TimeoutError):
            async with asyncio.timeout(RELEASE_SECONDS):
                lease = await self._own.get(self._path)
                spec = lease.get("spec") or {}
                if spec.get("holderIdentity") != self.identity:
                    return
                freed = {
                    **spec,
                    "holderIdentity": "",
                    "leaseDurationSeconds": 1,
                    "renewTime": _micro_time(),
                }
                await self._own.replace(self._path, {**lease, "spec": freed})
                self.holder = ""
                logger.info("%s: released", self._path)


def _micro_time() -> str:
    """Now as a Kubernetes MicroTime; for people and other tools, never compared by us."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
