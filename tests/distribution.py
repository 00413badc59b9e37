"""Which tests share a worker under `--dist loadfile`, and which begin first.

Tests of one file share a control plane, so they stay together, and so do the files of a folder that
share one of their own. Two cores are idle at the end for as long as the last worker is busy: what
takes longest begins first, and what takes moments comes last.
"""

from pathlib import PurePosixPath

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

TOGETHER = ("tests/faults", "tests/cluster/chart")
"""Folders with a control plane of their own: one worker runs all of it."""

LONGEST_FIRST = (
    "tests/faults",
    "tests/cluster/tenants_api/test_tenant_aggregated.py",
    "tests/cluster/chart",
    "tests/cluster/scheduling/test_races.py",
    "tests/cluster/test_how_to.py",
    "tests/cluster/cli/test_generated_clusters.py",
    "tests/cluster/test_certificates.py",
    "tests/cluster/test_gitops.py",
    "tests/cluster/scheduling/test_wakeup.py",
    "tests/cluster/test_hostile_tenant.py",
    "tests/cluster/test_outage.py",
    "tests/cluster/test_up.py",
    "tests/cluster/test_control_plane.py",
    "tests/cluster/test_rollouts.py",
    "tests/cluster/test_resilience.py",
)
"""Files that take more than half a minute each, in the order in which they begin."""

SHORT = ("tests/chart",)


def unit(nodeid: str) -> str:
    """The file of a test, or the folder whose tests stay together."""
    path = nodeid.partition("::")[0]
    parents = {str(parent) for parent in PurePosixPath(path).parents}
    return next((folder for folder in TOGETHER if folder in parents), path)


def rank(nodeid: str) -> int:
    """Sorts tests in the order in which they begin; those of a rank keep theirs."""
    found = unit(nodeid)
    if found in LONGEST_FIRST:
        return LONGEST_FIRST.index(found)
    return len(LONGEST_FIRST) + found.startswith(SHORT)


class LongestFirst(LoadFileScheduling):  # type: ignore[misc]
    """Deals out units in the order of their tests."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)
