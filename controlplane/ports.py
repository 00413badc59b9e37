"""Free TCP ports that stay free until they are used, also over a restart."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_FIRST = 20000
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


_CLAIMS = Path(tempfile.gettempdir()) / f"schedclass-ports-{os.getuid()}"
"""One file for each port that a run folder has claimed, with the folder's path in it."""


def allocate(names: Iterable[str], owner: Path) -> dict[str, int]:
    """Returns a distinct free port of 127.0.0.1 for each name.

    The ports are claimed for the run folder `owner`, as long as that exists: two control planes
    that start at the same moment see the same ports free.

    They lie below the kernel's ephemeral range: a port in it could become the source port of any
    outgoing connection while the program that owns it is being restarted.

    Raises:
        OSError: No port is free.
    """
    try:
        ephemeral = int(_EPHEMERAL.read_text(encoding="ascii").split()[0])
    except FileNotFoundError:
        ephemeral = 32768
    last = ephemeral if ephemeral > _FIRST + 1000 else 65535
    candidates = iter(random.SystemRandom().sample(range(_FIRST, last), last - _FIRST))
    found: dict[str, int] = {}
    with _claiming():
        for name in names:
            for port in candidates:
                if is_free(port) and _claim(port, owner):
                    found[name] = port
                    break
            else:
                raise OSError("no TCP port of 127.0.0.1 is free")
    return found


@contextmanager
def _claiming() -> Iterator[None]:
    """One process at a time: of two that find a claim without a folder, both would take it over."""
    _CLAIMS.mkdir(mode=0o700, exist_ok=True)
    with (_CLAIMS / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _claim(port: int, owner: Path) -> bool:
    """Whether the port is this owner's now; a claim outlives neither its folder nor a reboot."""
    claim = _CLAIMS / str(port)
    if claim.exists():
        holder = Path(claim.read_text(encoding="utf-8"))
        if holder != owner and holder.exists():
            return False
    claim.write_text(str(owner), encoding="utf-8")
    return True


def is_free(port: int) -> bool:
    """Tells whether a server could listen on this port of 127.0.0.1 now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
