"""Where things lie: the repository, the cache of built programs, the run folder of `make up`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
MODULES = REPOSITORY / "controlplane" / "modules"
STAGES = REPOSITORY / "controlplane" / "stages"
CHART = REPOSITORY / "helm"
RUN = REPOSITORY / ".run"


def cache() -> Path:
    """Returns the folder outside the work tree that keeps built programs between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "schedclass"


def own_kubectl() -> Path:
    """Returns the kubectl that the locked development dependencies bring."""
    return Path(sys.executable).parent / "kubectl"
