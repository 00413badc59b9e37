"""The output in the how-to pages that need a cluster, from a real control plane; see `console`.

`python -m generate.cluster_docs` starts one of its own and ends it. `tests/cluster/test_how_to.py`
runs the same on the control plane of the tests and compares.
"""

import contextlib
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from controlplane import ApiError, Cluster, Installation, build
from controlplane.run import console as progress
from generate.console import (
    EXAMPLES,
    ROOT,
    program_and_arguments,
    renewed,
    schedclass,
    told,
)
from generate.output import settle

PAGES: Final = [
    ROOT / "docs/how-to/first-class.md",
    ROOT / "docs/how-to/pending-pod.md",
    ROOT / "docs/how-to/dashboard-fields.md",
]
NAMESPACES: Final = ("tenant-bakery", "tenant-bakery-test", "lesson", "tenant-lesson")
CLASSES: Final = ("east-only", "west-only", "lesson-west", "lesson-east")

_READING: Final = ("get", "schedclass")
_QUIET_SECONDS: Final = 2.0
"""What reads the same for so long has settled: nothing that is shown takes longer to begin."""

_VARYING: Final = (
    (re.compile(r"(?<= )\d+[smh]$", re.MULTILINE), "5s"),
    (re.compile(r"\(x\d+\)"), "(x1)"),
)
"""Ages at the end of a line, and how often an Event was repeated."""


class Terminal:
    """Runs the commands of pages against one cluster, in the folder of the examples."""

    def __init__(self, cluster: Cluster, *, patience: float = 20.0) -> None:
        """Nothing is run yet.

        Args:
            cluster: with the operator on it and nodes 1 to 3.
            patience: seconds that a page may take to become true again.
        """
        self._cluster = cluster
        self._patience = patience

    def until_quiet(self, command: str, _: str) -> str:
        """The output of a command; of one that only reads, once it no longer changes."""
        printed = self._run(command)
        since = time.monotonic()
        while _reads(command) and time.monotonic() - since < _QUIET_SECONDS:
            time.sleep(0.2)
            again = self._run(command)
            if again != printed:
                printed, since = again, time.monotonic()
        return printed

    def until_as(self, command: str, written: str) -> str:
        """The output of a command; of one that only reads, as soon as it is as it is written."""
        deadline = time.monotonic() + self._patience
        printed = self._run(command)
        while _reads(command) and printed != written and time.monotonic() < deadline:
            time.sleep(0.1)
            printed = self._run(command)
        return printed

    def _run(self, command: str) -> str:
        program, arguments = program_and_arguments(command)
        if program == "schedclass":
            kubeconfig = str(self._cluster.kubeconfig)
            text = schedclass([*arguments, "--kubeconfig", kubeconfig])
        elif program == "kubectl":
            with contextlib.chdir(EXAMPLES):
                done = self._cluster.kubectl.attempt(*arguments)
            text = told(done.stdout, done.stderr, done.returncode)
        else:
            raise SystemExit(f"cannot run {program}")
        text = text.replace(self._cluster.url, "https://cluster.example.com")
        for pattern, instead in _VARYING:
            text = pattern.sub(instead, text)
        return text if not text or text.endswith("\n") else f"{text}\n"

    def clean_up(self) -> None:
        """Take away what the pages have made; pods at once, as they take places."""
        kubectl = self._cluster.kubectl
        flags = ("--ignore-not-found", "--wait=false")
        for namespace in NAMESPACES:
            kubectl("delete", *flags, "--now", "pods", "--all", "-n", namespace)
        kubectl("delete", *flags, "namespaces", *NAMESPACES)
        for namespace in NAMESPACES:
            self._finalize(namespace)
        kubectl("wait", "--for=delete", "--timeout=60s", *(f"namespace/{n}" for n in NAMESPACES))
        kubectl("delete", "--ignore-not-found", "schedulingclasses", *CLASSES)

    def _finalize(self, namespace: str) -> None:
        """Spare the namespace controller its search for content, which takes five seconds."""
        body = {"metadata": {"name": namespace}, "spec": {"finalizers": []}}
        with contextlib.suppress(ApiError):  # it is not there, or is gone already
            self._cluster.admin.request("PUT", f"/api/v1/namespaces/{namespace}/finalize", body)


def _reads(command: str) -> bool:
    program, arguments = program_and_arguments(command)
    return program == "schedclass" or arguments[0] in _READING


def page(path: Path, terminal: Terminal, output: Callable[[str, str], str]) -> str:
    """A page with the output of now; the cluster is as before afterwards."""
    try:
        return renewed(path.read_text(encoding="utf-8"), output)
    finally:
        terminal.clean_up()


def main() -> int:
    """Renew all pages on a control plane of their own."""
    out = progress()
    build.build(out)
    with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder) / "cluster") as cluster:
        cluster.create_nodes(3)
        Installation(cluster, replicas=1).start()
        terminal = Terminal(cluster)
        pages = {path: page(path, terminal, terminal.until_quiet) for path in PAGES}
    return settle(pages, "make docs")


if __name__ == "__main__":
    sys.exit(main())
