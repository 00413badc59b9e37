"""One run of tests: what became of each, and which rights were used while it ran."""

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from controlplane.rights import Right, matches, used

AUDIT_LOG = "logs/audit.jsonl"
FAULTS = "faults"
"""How control planes of `tests/faults` are named: `make test-rights` does not run those tests."""


@dataclass(frozen=True)
class Report:
    """One phase (setup, call, teardown) of one test; times in seconds of the epoch."""

    test: str
    when: str
    outcome: str
    start: float
    stop: float
    worker: str
    text: str


def reports(path: Path) -> list[Report]:
    """What the plugin has written, in the order of the beginnings."""
    with path.open(encoding="utf-8") as lines:
        return sorted((Report(**json.loads(line)) for line in lines), key=attrgetter("start"))


def logs(folder: Path) -> Iterator[Path]:
    """The audit log of every control plane that ran below a folder."""
    for path in folder.rglob("audit.jsonl"):
        if path.as_posix().endswith(AUDIT_LOG):
            yield path


def unused(rights: Iterable[Right], folders: Iterable[Path]) -> list[Right]:
    """The rights that nobody used on any control plane below these folders."""
    uses = {
        use
        for folder in folders
        for log in logs(folder)
        if not any(part.startswith(FAULTS) for part in log.relative_to(folder).parts)
        for _, use in used(log)
    }
    return [right for right in rights if not any(matches(right, use) for use in uses)]


class Record:
    """A run that `--reports` and `--basetemp` have kept."""

    def __init__(self, written: Path, folder: Path) -> None:
        everything = reports(written)
        failed = {r.test for r in everything if r.outcome == "failed"}
        self.failed = sorted(failed)
        self.seconds: dict[str, float] = defaultdict(float)
        for report in everything:
            self.seconds[report.test] += report.stop - report.start
        self._tests: dict[Right, set[str]] = defaultdict(set)
        by_worker = sorted(everything, key=lambda r: (r.worker, r.start))
        for worker, group in groupby(by_worker, key=attrgetter("worker")):
            own = list(group)
            starts = [report.start for report in own]
            for log in logs(folder / f"popen-{worker}" if worker else folder):
                for time, use in used(log):
                    index = bisect_right(starts, datetime.fromisoformat(time).timestamp())
                    if index and own[index - 1].test not in failed:
                        self._tests[use].add(own[index - 1].test)

    def tests_that_use(self, right: Right) -> list[str]:
        """Those that pass with it, the quickest first."""
        found = set().union(*(t for use, t in self._tests.items() if matches(right, use)))
        return sorted(found, key=lambda test: (self.seconds[test], test))
