"""Opening a port: the same for reviews, for kube-scheduler's requests and for probes."""

from ssl import SSLContext

from aiohttp import web


async def listen(
    runner: web.AppRunner | web.ServerRunner,
    host: str | None,
    port: int,
    *,
    tls: SSLContext | None = None,
) -> int:
    """Have a runner listen; returns the port.

    Args:
        runner: not set up yet.
        host: address to listen on; None for all.
        port: port to listen on; 0 for any free one.
        tls: for HTTPS.

    Raises:
        OSError: the port cannot be opened; the runner is cleaned up.
    """
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
    except OSError:
        await runner.cleanup()
        raise
    opened: int = runner.addresses[0][1]
    return opened
