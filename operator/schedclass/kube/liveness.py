"""Whether somebody else's program is alive, as far as its Lease tells.

A Lease that keeps changing is being renewed. Its wall-clock time is believed only at the first
look, when there is nothing to compare with, and then generously.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from schedclass.domain.class_status import SchedulerSign
from schedclass.kube.client import KubeClient, resource_path
from schedclass.kube.delays import jittered
from schedclass.kube.errors import ApiError, NotFound, Unreachable

logger = logging.getLogger(__name__)

LEASE_API: Final = "coordination.k8s.io/v1"
LOOK_SECONDS: Final = 5.0
CLOCK_SKEW: Final = 30.0
DEFAULT_DURATION: Final = 15.0


class LeaseWatch:
    """Looks at one Lease at intervals.

    Attributes:
        alive: whether its holder renews it; None while that is not known.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        name: str,
        seconds: float = LOOK_SECONDS,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """Nothing is requested before `run`.

        Args:
            client: who asks; needs get of this Lease.
            namespace: of the Lease.
            name: of the Lease; empty if there is none to look at.
            seconds: between two looks.
            on_change: called whenever `alive` has changed.
        """
        self.alive: bool | None = None
        self._client = client
        self._lease = f"{namespace}/{name}" if name else ""
        self._path = resource_path(LEASE_API, "leases", namespace=namespace, name=name)
        self._seconds = seconds
        self._on_change = on_change
        self._record: object = None
        self._changed_at = 0.0
        self._logged = ""

    def sign(self) -> SchedulerSign | None:
        """What is known of the program; None if it is not ours to say."""
        return SchedulerSign(self._lease, self.alive) if self._lease else None

    async def run(self) -> None:
        """Look until cancelled; without a Lease there is nothing to do."""
        while self._lease:
            before = self.alive
            self.alive = await self._look()
            if self.alive != before:
                self._on_change()
            await asyncio.sleep(jittered(self._seconds))

    async def _look(self) -> bool | None:
        try:
            lease = await self._client.get(self._path, timeout=self._seconds)
        except NotFound as error:
            return False if error.object_absent else None
        except (ApiError, Unreachable) as error:
            self._note(str(error))
            return self.alive  # no news is no change
        return self._judge(lease.get("spec") or {})

    def _judge(self, spec: dict[str, Any]) -> bool | None:
        """A holder that changes, or lets go for another to take over, is no outage by itself."""
        holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
        duration = float(spec.get("leaseDurationSeconds") or DEFAULT_DURATION)
        now, first = time.monotonic(), self._record is None
        record = (holder, renewed) if holder else self._record
        if first or record != self._record:
            self._record, self._changed_at = record or (None, None), now
            return True if not first or _is_recent(renewed, duration) else None
        return self.alive if now - self._changed_at <= 2 * duration else False

    def _note(self, message: str) -> None:
        level = logging.DEBUG if message == self._logged else logging.WARNING
        logger.log(level, "whether the holder of a Lease lives is not known: %s", message)
        self._logged = message


def _is_recent(renewed: object, duration: float) -> bool:
    if not isinstance(renewed, str):
        return False
    try:
        moment = datetime.fromisoformat(renewed.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return False
    return abs(time.time() - moment) <= duration + CLOCK_SKEW
