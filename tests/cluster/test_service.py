"""The stand-in of the webhook's Service: new connections go to ready backends only."""

import http.server
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from controlplane import eventually
from controlplane.ports import allocate
from controlplane.processes import Command, ManagedProcess
from controlplane.programs import program


class Backend:
    """An echo server that greets with its name, and a readiness probe that can be switched."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ready = True
        self.listener = socket.create_server(("127.0.0.1", 0))
        backend = self

        class Probe(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200 if backend.ready else 503)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None: ...

        self.probe = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Probe)

    @contextmanager
    def serving(self) -> Iterator["Backend"]:
        threads = [
            threading.Thread(target=self._accept),
            threading.Thread(target=self.probe.serve_forever, args=(0.01,)),
        ]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self.refuse()
            self.probe.shutdown()
            self.probe.server_close()
            for thread in threads:
                thread.join()

    def refuse(self) -> None:
        """Ceases to listen: new connections are refused while the probe still says ready."""
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it was closed before
        finally:
            self.listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(connection,)).start()

    def _echo(self, connection: socket.socket) -> None:
        with connection:
            connection.sendall(self.name.encode())
            while data := connection.recv(4096):
                connection.sendall(data)

    def argument(self) -> str:
        address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        return f"-backend={address},http://127.0.0.1:{self.probe.server_port}/readyz"


@pytest.fixture
def backends() -> Iterator[list[Backend]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Backend(name).serving()) for name in ("a", "b")]


@pytest.fixture
def port(backends: list[Backend], tmp_path: Path) -> Iterator[int]:
    port = allocate(["service"], tmp_path)["service"]
    service = ManagedProcess(tmp_path, "service")
    arguments = [backend.argument() for backend in backends]
    service.start(
        Command(
            [str(program("service")), f"-listen=127.0.0.1:{port}", "-interval=20ms", *arguments]
        )
    )
    both = lambda: service.tail(50).count("ready=true") == 2  # noqa: E731
    service.wait_ready(both, seconds=10)
    yield port
    service.stop()


def greeted_by(port: int) -> str:
    """The name of the backend that a new connection reaches; empty if it is reset."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            return connection.recv(1).decode()
    except ConnectionError:
        return ""


def test_connections_alternate_between_ready_backends(port: int) -> None:
    seen = [greeted_by(port) for _ in range(6)]
    assert sorted(seen) == ["a", "a", "a", "b", "b", "b"]
    assert seen[0] != seen[1]


def test_an_unready_backend_keeps_its_connections_and_gets_no_new_ones(
    port: int, backends: list[Backend]
) -> None:
    by_name = {backend.name: backend for backend in backends}
    with socket.create_connection(("127.0.0.1", port), timeout=5) as old:
        name = old.recv(1).decode()
        other = ({"a", "b"} - {name}).pop()
        by_name[name].ready = False
        eventually(
            "new connections avoid it", lambda: {greeted_by(port) for _ in range(4)} == {other}
        )
        old.sendall(b"still here")
        assert old.recv(100) == b"still here"
        by_name[name].ready = True
        eventually(
            "it gets connections again", lambda: {greeted_by(port) for _ in range(4)} == {"a", "b"}
        )


def test_a_backend_that_refuses_is_passed_over_at_once(port: int, backends: list[Backend]) -> None:
    backends[0].refuse()
    assert [greeted_by(port) for _ in range(4)] == ["b"] * 4


def test_without_a_ready_backend_a_connection_is_reset(port: int, backends: list[Backend]) -> None:
    for backend in backends:
        backend.ready = False
    eventually("nobody answers", lambda: greeted_by(port) == "")


def test_a_backend_that_became_ready_unnoticed_gets_what_the_last_one_refuses(
    backends: list[Backend], tmp_path: Path
) -> None:
    first, second = backends
    first.ready = False
    port = allocate(["slow"], tmp_path)["slow"]
    service = ManagedProcess(tmp_path, "slow")
    arguments = [f"-listen=127.0.0.1:{port}", "-interval=1h", *(b.argument() for b in backends)]
    service.start(Command([str(program("service")), *arguments]))
    service.wait_ready(lambda: service.tail(50).count("ready=true") == 1, seconds=10)
    first.ready = True
    second.refuse()
    assert greeted_by(port) == "a"
    service.stop()


def test_a_half_closed_connection_still_gets_the_answer(port: int) -> None:
    payload = bytes(range(256)) * 4096
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        assert connection.recv(1)

        def send() -> None:
            connection.sendall(payload)
            connection.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        received = b"".join(iter(lambda: connection.recv(65536), b""))
        sender.join()
    assert received == payload
