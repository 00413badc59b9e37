"""Connections that were in their TLS handshake when their owner ended."""

import gc
import warnings


def collect_handshakes() -> None:
    """Closes them. asyncio leaves them to nobody, so only as garbage are they closed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
