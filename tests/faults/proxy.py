"""A TCP proxy between the operator and the API server that can be slow, deaf or gone.

It passes bytes on as they are, so that TLS stays end to end.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

CHUNK = 1 << 16


class Proxy:
    """Listens on a port of 127.0.0.1 while it is entered.

    Attributes:
        delay: seconds that each piece of an answer is held back.
    """

    def __init__(self, port: int, target: int) -> None:
        """Connections to `port` are passed on to port `target`."""
        self.delay = 0.0
        self._is_cut = False
        self._port = port
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy")
        self._links: set[_Link] = set()
        self._server: asyncio.Server | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._open())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def freeze(self) -> int:
        """Makes the connections that exist half dead: open, but no byte passes any more.

        New connections work. Returns how many there are.
        """
        return int(self._call(self._for_all(lambda link: link.passing.clear())))

    def reset(self) -> int:
        """Breaks the connections that exist."""
        return int(self._call(self._for_all(lambda link: link.break_off())))

    def cut(self, on: bool) -> None:
        """Breaks all connections and takes no new ones, until it is called with False."""
        self._is_cut = on
        if on:
            self.reset()

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _for_all(self, action: Callable[["_Link"], object]) -> int:
        for link in tuple(self._links):
            action(link)
        return len(self._links)

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        await self._for_all(lambda link: link.break_off())
        await asyncio.gather(*(link.ended.wait() for link in tuple(self._links)))

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        link = _Link(self, reader, writer)
        self._links.add(link)
        try:
            await link.run(self._target)
        finally:
            self._links.discard(link)
            link.ended.set()


class _Link:
    """One connection and its counterpart."""

    def __init__(
        self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.passing = asyncio.Event()
        self.passing.set()
        self._proxy = proxy
        self._client = (reader, writer)
        self.ended = asyncio.Event()
        self._broken = asyncio.Event()

    def break_off(self) -> None:
        self._broken.set()

    async def run(self, target: int) -> None:
        reader, writer = self._client
        writers = [writer]
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(self._broken.wait())]
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target)
            writers.append(far_writer)
            tasks += [
                asyncio.create_task(self._pass(reader, far_writer, delayed=False)),
                asyncio.create_task(self._pass(far_reader, writer, delayed=True)),
            ]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            return  # the API server is gone, and so is the connection
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for each in writers:
                if self._broken.is_set():
                    each.transport.abort()
                else:
                    each.close()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, delayed: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                if delayed and self._proxy.delay:
                    await asyncio.sleep(self._proxy.delay)
                await self.passing.wait()
                writer.write(data)
                await writer.drain()
