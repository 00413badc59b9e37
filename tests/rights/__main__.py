"""Takes away each right that the chart grants, one by one, and shows which test fails for it.

First the cluster suite (or a part, if told) runs once with all of them, and the API servers' audit
logs tell which test used which. Then, for each right, some of its tests run again on a control
plane of their own, with a chart that does not grant it. Prints a table; fails if there is a right
without which all of them pass.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from controlplane.helm import WITHHELD
from controlplane.paths import REPOSITORY
from controlplane.rights import Right
from tests.rights.chart import chart_rights
from tests.rights.record import Record, Report, reports

SUITE = "tests/cluster"
AT_FIRST, AT_MOST = 3, 12
"""How many of the tests that use a right are tried without it, and how many more if all pass."""

RUN_SECONDS = 900
TEST_SECONDS = 400
"""Longer than all that the suite itself waits for, so that each test says what it missed."""

TOO_LONG = "from pytest-timeout"
REFUSAL = "lacked a right"
"""What the suite itself says at its end if the operator was refused something."""


@dataclass(frozen=True)
class Finding:
    """What became of the tests without a right; `test` is empty if nobody missed it."""

    right: Right
    test: str
    why: str

    def row(self) -> str:
        of = f"{self.right.resource}/{self.right.name}" if self.right.name else self.right.resource
        test = f"`{self.test}`" if self.test else "**none**"
        return f"| {self.right.role} | {self.right.verb} {of} | {test} | {self.why} |"


def run(folder: Path, arguments: list[str], withheld: str) -> list[Report]:
    """Runs tests with a right withheld and returns their reports."""
    folder.mkdir(parents=True)
    written = folder / "reports.jsonl"
    written.touch()
    command = [sys.executable, "-m", "pytest", *arguments, "-p", "tests.rights.recording"]
    command += [f"--reports={written}", f"--basetemp={folder / 'run'}", "-p", "no:cacheprovider"]
    command += [f"--timeout={TEST_SECONDS}"]
    with (folder / "output.txt").open("wb") as output:
        done = subprocess.run(
            command,
            cwd=REPOSITORY,
            env={**os.environ, WITHHELD: withheld},
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=3 * RUN_SECONDS,
        )
    if done.returncode not in {0, 1}:  # passed, or some failed
        raise RuntimeError(f"pytest ended with {done.returncode}; see {folder / 'output.txt'}")
    return reports(written)


def examine(right: Right, record: Record, folder: Path) -> Finding:
    """Runs tests that use a right without it."""
    tests = record.tests_that_use(right)
    if not tests:
        return Finding(right, "", "nobody uses it")
    for number, part in enumerate((tests[:AT_FIRST], tests[AT_FIRST:AT_MOST])):
        if part:
            own = folder / f"{number}"
            found = run(own, ["-x", "-q", *part], str(right))
            shutil.rmtree(own / "run", ignore_errors=True)  # etcd's logs are large
            failed = [report for report in found if report.outcome == "failed"]
            if any(TOO_LONG in report.text for report in failed):
                return Finding(right, "", "not known: this machine was too busy to tell")
            if failed:
                return Finding(right, _short(failed[0].test), _why(failed[0]))
    return Finding(right, "", f"{len(tests[:AT_MOST])} tests that use it pass without")


def _short(test: str) -> str:
    """A test's id without its folders; what stands in its brackets may have slashes too."""
    file, colons, name = test.partition("::")
    return f"{file.rpartition('/')[2]}{colons}{name}"


def _why(report: Report) -> str:
    if REFUSAL in report.text:
        return "the API server's refusal is counted"
    found = re.findall(r"^E\s+(?:[\w.]+Error: )?(.*?)(?:;.*)?$", report.text, re.MULTILINE)
    said = next((line for line in found if line), "")
    when = {"setup": "the operator does not start: ", "call": "", "teardown": "its end fails: "}
    return when[report.when] + said.replace("|", "\\|")


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.rights", description=__doc__)
    parser.add_argument("--folder", type=Path, help="keep everything here; a record is used again")
    parser.add_argument(
        "--only",
        action="append",
        metavar="TEXT",
        help="rights whose text contains this; repeatable",
    )
    parser.add_argument("--tests", default=SUITE, help="file or folder of those that may miss them")
    parser.add_argument("--workers", type=int, default=2, help="control planes at the same time")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="schedclass-rights-"))
    wanted = arguments.only or [""]
    rights = [right for right in chart_rights() if any(text in str(right) for text in wanted)]
    if not rights:
        parser.error(f"the chart grants no right with {' or '.join(wanted)} in its text")
    if not (folder / "suite" / "reports.jsonl").exists():
        sys.stdout.write(f"Running {arguments.tests} with every right; logs are in {folder} ...\n")
        parallel = ["-n", str(arguments.workers), "--dist", "loadfile"]
        run(folder / "suite", [arguments.tests, "-q", *parallel], "none")
    record = Record(folder / "suite" / "reports.jsonl", folder / "suite" / "run")
    for test in record.failed:
        sys.stdout.write(f"not used, as it fails with every right: {test}\n")
    findings = {}
    runs = Path(tempfile.mkdtemp(prefix="without-", dir=folder))
    with ThreadPoolExecutor(arguments.workers) as pool:
        futures = [
            pool.submit(examine, right, record, runs / str(number))
            for number, right in enumerate(rights)
        ]
        for future in as_completed(futures):
            finding = future.result()
            findings[finding.right] = finding
            sys.stdout.write(f"{finding.row()}\n")
            sys.stdout.flush()
    needless = [right for right in rights if not findings[right].test]
    sys.stdout.write("\n| role | right | test that fails without it | how |\n|---|---|---|---|\n")
    sys.stdout.writelines(f"{findings[right].row()}\n" for right in rights)
    sys.stdout.write(f"\n{len(rights)} rights, {len(needless)} that nobody misses\n")
    return 1 if needless else 0


if __name__ == "__main__":
    sys.exit(main())
