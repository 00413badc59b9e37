"""A cluster of ten thousand namespaces, and what can be done to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil
from rich.console import Console

from bench.load import at_once, cpu_seconds
from bench.report import Goal
from controlplane import Cluster, Installation, eventually
from controlplane.installation import NAMESPACE, RELEASE
from schedclass.domain import names
from schedclass.kube.client import KubeClient
from schedclass.kube.credentials import kubeconfig
from schedclass.kube.errors import Conflict

Json = dict[str, Any]

NAMESPACES = "/api/v1/namespaces"
CLASSES = f"/apis/{names.API_VERSION}/{names.PLURAL}"
ROOT, OTHER = "tenant-all", "tenant-other"
WEBHOOK, CONTROLLER = "webhook-0", "controller-0"

CONCURRENCY = 16
"""As the controller's setting `patch_concurrency`."""

DEPTH = 6
FAN_OUT = 5


@dataclass
class Scale:
    """What is built and what was found out about it."""

    cluster: Cluster
    operator: Installation
    admin: KubeClient
    out: Console
    count: int
    children: int
    classes: int
    goals: list[Goal] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def note(self, text: str, wanted: str, measured: str, *, met: bool) -> None:
        """Adds a goal and says it at once."""
        self.goals.append(Goal(text, wanted, measured, met))
        self.out.print(f"{text}: {measured} (goal: {wanted})")

    # --- what is there ------------------------------------------------------------------------

    def tree(self) -> list[tuple[str, str]]:
        """Names below `tenant-all` with their parents, parents first."""
        big = f"{ROOT}-big"
        found = [(big, ROOT), *((f"{big}-{n}", big) for n in range(self.children))]
        level = [f"{ROOT}-t{n}" for n in range(FAN_OUT)]
        found += [(name, ROOT) for name in level]
        # Five chains that fan out below their fifth level, so that the leaves lie six deep.
        for _ in range(DEPTH - 3):
            found += [(f"{name}-d", name) for name in level]
            level = [f"{name}-d" for name in level]
        number = 0
        while len(found) < self.count:
            above = level[number % len(level)]
            found.append((f"{above}-{number}", above))
            number += 1
        return found[: self.count]

    async def build(self) -> None:
        """Creates classes and namespaces as the operator would have left them."""
        for n in range(self.classes):
            body = {
                **{"apiVersion": names.API_VERSION, "kind": names.KIND},
                "metadata": {"name": f"class-{n}"},
                "spec": {"nodeSelector": {"zone": f"z{n}"}},
            }
            await self.admin.create(CLASSES, body)
        roots = {}
        for name in (ROOT, OTHER):
            labels = {names.CLASS_KEY: "class-0", names.ENFORCED: "true"}
            made = await self.admin.create(
                NAMESPACES, {"metadata": {"name": name, "labels": labels}}
            )
            roots[name] = made["metadata"]["uid"]
        tree = self.tree()
        self.members = [name for name, _ in tree]
        self.others = [f"{OTHER}-{n}" for n in range(10)]
        everyone = [(n, ROOT) for n in self.members] + [(n, OTHER) for n in self.others]

        async def create(item: tuple[str, str]) -> None:
            name, root = item
            metadata = {
                "name": name,
                "labels": {names.CLASS_KEY: "class-0", names.ENFORCED: "true"},
                "annotations": {
                    names.INHERITED_FROM: root,
                    names.INHERITED_FROM_UID: roots[root],
                    names.INHERITED_CLASS: "class-0",
                },
            }
            await self.admin.create(NAMESPACES, {"metadata": metadata})

        await at_once(everyone, create, CONCURRENCY, Conflict)

    # --- start --------------------------------------------------------------------------------

    async def start(self, name: str, seconds: float, mebibytes: float) -> None:
        """Starts a replica and notes how long it takes and how large it is."""
        began = time.perf_counter()
        process = self.operator.start_replica(name, wait=False)
        role = name.partition("-")[0]
        if role == "controller":
            await asyncio.to_thread(eventually, "it leads", lambda: self._leads(name), seconds=120)
        await asyncio.to_thread(self.operator.wait_replica_ready, name, seconds=300)
        took = time.perf_counter() - began
        self.note(
            f"{role}: start until ready", f"{seconds:g} s", f"{took:.2f} s", met=took <= seconds
        )
        self.out.print(f"{role}: {self.cpu(name):.2f} s of CPU until then")
        await self.settle(process.pid)
        self.note_memory(f"{role}: resident memory once at rest", name, mebibytes)

    def note_memory(self, text: str, name: str, mebibytes: float) -> None:
        """Notes the resident memory of a replica."""
        rss = psutil.Process(self.operator.process(name).pid).memory_info().rss / 2**20
        self.note(text, f"{mebibytes:g} MiB", f"{rss:.0f} MiB", met=rss <= mebibytes)

    async def settle(self, pid: int) -> None:
        """Waits until a process does next to nothing for three seconds."""
        quiet = 0
        process = psutil.Process(pid)
        process.cpu_percent()
        while quiet < 3:
            await asyncio.sleep(1)
            quiet = quiet + 1 if process.cpu_percent() < 10 else 0

    def cpu(self, name: str) -> float:
        """CPU seconds that a replica has used so far."""
        return cpu_seconds(self.operator.process(name).pid)

    def _leads(self, name: str) -> bool:
        return "leading as" in self.operator.process(name).log.read_text(encoding="utf-8")

    # --- the storm ----------------------------------------------------------------------------

    async def change(self, root: str, class_name: str) -> None:
        """The tenant's own change, by a user."""
        body = {"metadata": {"labels": {names.CLASS_KEY: class_name}}}
        await self.admin.merge_patch(f"{NAMESPACES}/{root}", body)

    async def bare_loop(self, class_name: str) -> float:
        """The same patches without a controller; returns patches a second."""
        path = self.cluster.identities.service_account_kubeconfig(
            NAMESPACE, f"{RELEASE}-controller"
        )
        await self.change(ROOT, class_name)
        items: dict[str, Json] = {}
        async for page, _ in self.admin.list_pages(NAMESPACES, metadata_only=True):
            items |= {item["metadata"]["name"]: item["metadata"] for item in page}
        async with await KubeClient.load(role="bench", source=kubeconfig(str(path))) as client:

            async def patch(name: str) -> None:
                found = items[name]
                metadata = {
                    "labels": {names.CLASS_KEY: class_name},
                    "annotations": {names.INHERITED_CLASS: class_name},
                    "uid": found["uid"],
                    "resourceVersion": found["resourceVersion"],
                }
                await client.merge_patch(f"{NAMESPACES}/{name}", {"metadata": metadata})

            async with self.carrying(class_name, self.members) as carried:
                began = time.perf_counter()
                # The namespace controller may have put its own label on one meanwhile.
                await at_once(self.members, patch, CONCURRENCY, Conflict)
                await carried()
                return len(self.members) / (time.perf_counter() - began)

    async def storm(self, class_name: str) -> tuple[float, float]:
        """The controller's way; returns patches a second, and the other tenant's seconds."""
        async with (
            self.carrying(class_name, self.members) as carried,
            self.carrying(class_name, self.others) as others_carried,
        ):
            began = time.perf_counter()
            await self.change(ROOT, class_name)
            await asyncio.sleep(min(3.0, len(self.members) / 2000))
            changed = time.perf_counter()
            await self.change(OTHER, class_name)
            await others_carried()
            other = time.perf_counter() - changed
            await carried()
            return len(self.members) / (time.perf_counter() - began), other

    @asynccontextmanager
    async def carrying(
        self, class_name: str, members: Iterable[str]
    ) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Follows a watch; what it yields waits until all members carry the class."""
        missing = set(members)
        page = await self.admin.get(NAMESPACES, params={"limit": 1})
        version = page["metadata"]["resourceVersion"]

        async def follow() -> None:
            watch = self.admin.watch(NAMESPACES, resource_version=version, metadata_only=True)
            async with aclosing(watch) as events:
                async for _, item in events:
                    if (item["metadata"].get("labels") or {}).get(names.CLASS_KEY) == class_name:
                        missing.discard(item["metadata"]["name"])
                    if not missing:
                        return

        task = asyncio.create_task(follow())
        try:
            yield lambda: asyncio.wait_for(asyncio.shield(task), 600)
        finally:
            task.cancel()
