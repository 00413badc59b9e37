"""The command line on the control plane of the session."""

from collections.abc import Callable
from pathlib import Path

import pytest

from controlplane import Cluster
from tests.unit.cli.running import Done, schedclass

Cli = Callable[..., Done]


@pytest.fixture
def cli(cluster: Cluster) -> Cli:
    """`schedclass` with the admin's kubeconfig, or another one as the first argument."""

    def run(*arguments: str | Path, stdin: str = "", kubeconfig: Path | None = None) -> Done:
        path = kubeconfig or cluster.kubeconfig
        return schedclass(*arguments, "--kubeconfig", path, stdin=stdin)

    return run
