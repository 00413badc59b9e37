"""Events: what someone who looks at one object should know, aggregated and rate-limited.

core/v1 Events with the legacy fields filled, since dashboards and `kubectl describe` read those.
The limits follow client-go's EventCorrelator. Events are best effort: nothing waits for them and
whatever is lost is counted.
"""

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NoReturn

from schedclass.domain.findings import Finding, Severity
from schedclass.domain.text import shortened
from schedclass.kube import errors
from schedclass.kube.client import KubeClient, resource_path
from schedclass.kube.delays import MAX_RETRY_AFTER, Delays
from schedclass.kube.transport import Json

logger = logging.getLogger(__name__)

MAX_MESSAGE: Final = 1024
"""Bytes, the API server's limit for the `note` of an Event (events.k8s.io/v1)."""

QUEUE_SIZE: Final = 1000
REMEMBERED: Final = 4096
BURST: Final = 25
REFILL_SECONDS: Final = 300.0
"""client-go's spam filter: 25 at once, then one per five minutes for each object."""

RESERVED_PART: Final = 5
"""One part in so many of the burst is kept for what was not said of the object before."""

FIRST_DELAY: Final = 0.5
LONGEST_DELAY: Final = 30.0


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """The object that an Event is about.

    Attributes:
        api_version: e.g. `v1`.
        kind: e.g. `Pod`.
        name: its name.
        uid: its uid; empty if not known.
        namespace: where its Events go. Empty for a cluster-scoped object, whose Events go to
            `default`; a Namespace may name itself here, so that its owner sees them.
    """

    api_version: str
    kind: str
    name: str
    uid: str = ""
    namespace: str = ""

    def fields(self) -> dict[str, str]:
        """As `involvedObject` of an Event and as `k8s` of a log line, without what is empty."""
        fields = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "namespace": self.namespace,
            "uid": self.uid,
        }
        return {key: value for key, value in fields.items() if value}


_Key = tuple[ObjectRef, str, str]


@dataclass(slots=True)
class _Occurrences:
    """Repeats of one key: those not yet written, or those written as one Event."""

    finding: Finding
    count: int
    first: str
    last: str
    event_name: str = ""


class EventRecorder:
    """Writes findings as Events in the background: start `run()`, then `emit()`."""

    def __init__(  # noqa: PLR0913 - each a choice of its own, all by keyword
        self,
        client: KubeClient,
        *,
        component: str,
        instance: str,
        queue_size: int = QUEUE_SIZE,
        burst: int = BURST,
        refill_seconds: float = REFILL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        on_lost: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Nothing is requested before `run`.

        Args:
            client: who writes; needs create and patch of events.
            component: `source.component` and `reportingComponent`.
            instance: `reportingInstance`, the Pod's name.
            queue_size: different findings that may wait; the oldest is dropped beyond.
            burst: Events per object at once.
            refill_seconds: after which an object may have one more.
            clock: monotonic seconds.
            on_lost: receives how many findings were just lost: the queue was full, or the API
                server refused them, other than by the end of their namespace.
        """
        self._client = client
        self._component = component
        self._instance = instance
        self._queue_size = queue_size
        self._burst = burst
        self._refill = refill_seconds
        self._clock = clock
        self._on_lost = on_lost
        self._pending: OrderedDict[_Key, _Occurrences] = OrderedDict()
        self._known: OrderedDict[_Key, _Occurrences] = OrderedDict()
        self._tokens: OrderedDict[ObjectRef, tuple[float, float]] = OrderedDict()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def emit(self, about: ObjectRef, finding: Finding) -> None:
        """Have a finding written as an Event; returns at once and never fails.

        Args:
            about: the object.
            finding: its reason and message, with the path before it; Normal findings become
                Normal Events, all others Warnings.
        """
        key = (about, str(finding.reason), str(finding))
        now = _timestamp()
        waiting = self._pending.get(key)
        if waiting is not None:
            waiting.count += 1
            waiting.last = now
            return
        self._pending[key] = _Occurrences(finding, 1, now, now)
        if len(self._pending) > self._queue_size:
            self._pending.popitem(last=False)
            self._on_lost(1)
        self._idle.clear()
        self._wake.set()

    async def drained(self) -> None:
        """Return once everything emitted so far is written or given up; needs `run`."""
        await self._idle.wait()

    async def run(self) -> NoReturn:
        """Write until cancelled."""
        delays = Delays(FIRST_DELAY, LONGEST_DELAY)
        while True:
            await self._wake.wait()
            if not self._pending:
                self._wake.clear()
                self._idle.set()
                continue
            key, occurrences = self._pending.popitem(last=False)
            pause = await self._write(key, occurrences)
            if pause is None:
                delays.reset()
                continue
            self._put_back(key, occurrences)
            await asyncio.sleep(max(pause, delays.next()))

    def _put_back(self, key: _Key, occurrences: _Occurrences) -> None:
        """Before everything else, joined with repeats that came meanwhile."""
        newer = self._pending.get(key)
        if newer is not None:
            occurrences.count += newer.count
            occurrences.last = newer.last
        self._pending[key] = occurrences
        self._pending.move_to_end(key, last=False)

    async def _write(self, key: _Key, new: _Occurrences) -> float | None:
        """Write one; None if that is settled, else seconds to wait before trying again."""
        if not self._admit(key, new):
            return None
        about = key[0]
        try:
            await self._create_or_count(key, new)
        except (errors.TooManyRequests, errors.Unreachable) as error:
            self._refund(about)
            logger.info("an Event waits: %s", error, extra={"k8s": about.fields()})
            retry_after = getattr(error, "retry_after", None)
            return min(retry_after or 0.0, MAX_RETRY_AFTER)
        except errors.ApiError as error:
            # The usual end of a namespace: nobody will look for this Event any more.
            ending = isinstance(error, errors.NotFound) or error.has_cause("NamespaceTerminating")
            if not ending:
                self._on_lost(new.count)
            level = logging.DEBUG if ending else logging.WARNING
            logger.log(level, "an Event was refused: %s", error, extra={"k8s": about.fields()})
        return None

    async def _create_or_count(self, key: _Key, new: _Occurrences) -> None:
        about = key[0]
        namespace = about.namespace or "default"
        known = self._known.get(key)
        if known is not None:
            count = known.count + new.count
            path = resource_path("v1", "events", namespace=namespace, name=known.event_name)
            try:
                await self._client.merge_patch(path, {"count": count, "lastTimestamp": new.last})
            except errors.NotFound:
                del self._known[key]  # the API server forgets Events after an hour
            else:
                known.count, known.last = count, new.last
                self._known.move_to_end(key)
                return
        new.event_name = _event_name(key)
        path = resource_path("v1", "events", namespace=namespace)
        try:
            await self._client.create(path, self._event(about, namespace, new))
        except errors.Conflict:
            await self._join(f"{path}/{new.event_name}", new)
        self._known[key] = new
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    async def _join(self, path: str, new: _Occurrences) -> None:
        """Count on in the Event of another process: another replica, or the leader before us."""
        theirs = await self._client.merge_patch(path, {"lastTimestamp": new.last})
        new.count += int(theirs.get("count") or 0)
        await self._client.merge_patch(path, {"count": new.count})

    def _event(self, about: ObjectRef, namespace: str, new: _Occurrences) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": new.event_name, "namespace": namespace},
            "involvedObject": about.fields(),
            "type": "Normal" if new.finding.severity is Severity.NORMAL else "Warning",
            "reason": str(new.finding.reason),
            "message": shortened(str(new.finding), MAX_MESSAGE),
            "count": new.count,
            "firstTimestamp": new.first,
            "lastTimestamp": new.last,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }

    def _admit(self, key: _Key, new: _Occurrences) -> bool:
        """Take one of the object's tokens; without one the repeats are only counted on."""
        about = key[0]
        now = self._clock()
        tokens, at = self._tokens.pop(about, (float(self._burst), now))
        tokens = min(float(self._burst), tokens + (now - at) / self._refill)
        # Repeats leave something for what is new about the object.
        least = 1 + self._burst // RESERVED_PART if key in self._known else 1
        allowed = tokens >= least
        self._tokens[about] = (tokens - allowed, now)
        if len(self._tokens) > REMEMBERED:
            self._tokens.popitem(last=False)
        if not allowed and key in self._known:
            self._known[key].count += new.count
        return allowed

    def _refund(self, about: ObjectRef) -> None:
        tokens, at = self._tokens[about]
        self._tokens[about] = (tokens + 1, at)


def namespace_reference(name: str, uid: str = "") -> ObjectRef:
    """A namespace, whose Events go into itself."""
    return ObjectRef("v1", "Namespace", name, uid, namespace=name)


def _event_name(key: _Key) -> str:
    """The same in each process, so that none tells what another has told already."""
    about, reason, message = key
    parts = (about.api_version, about.kind, about.namespace, about.uid, reason, message)
    digest = hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()
    return f"{about.name[:200]}.{digest[:16]}"


def _timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
