"""Write generated files, or tell that they are stale."""

import sys
from pathlib import Path


def settle(files: dict[Path, str], command: str) -> int:
    """Write the files, or with `--check` on the command line compare them only.

    Args:
        files: contents by path.
        command: how to renew them, for the message.

    Returns:
        The exit code: 1 if `--check` found a difference.
    """
    stale = [
        path
        for path, content in files.items()
        if not path.exists() or path.read_text(encoding="utf-8") != content
    ]
    if "--check" not in sys.argv[1:]:
        for path in stale:
            path.write_text(files[path], encoding="utf-8")
        return 0
    for path in stale:
        sys.stderr.write(f"{path} is stale; renew it with: {command}\n")
    return bool(stale)
