"""Free TCP ports that stay free until they are used, also over a restart."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable
from pathlib import Path

_FIRST = 20000
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def allocate(names: Iterable[str]) -> dict[str, int]:
    """Returns a distinct free port of 127.0.0.1 for each name.

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
    for name in names:
        for port in candidates:
            if is_free(port):
                found[name] = port
                break
        else:
            raise OSError("no TCP port of 127.0.0.1 is free")
    return found


def is_free(port: int) -> bool:
    """Tells whether a server could listen on this port of 127.0.0.1 now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
