"""Command line: `python -m bench`, also `make bench ARGS='--rounds=3'`."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench import machine, report, subjects
from bench.admission import AdmissionBench, Plan
from bench.load import BenchError, LoadGenerator
from controlplane import ApiError, Cluster, HelmError, Installation, NotInTimeError, ProcessError
from controlplane import build as programs
from controlplane.toolchain import ToolchainError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_DEFAULT = Plan()

_EXPECTED = (
    *(BenchError, ApiError, HelmError, NotInTimeError, ProcessError),
    *(programs.BuildError, ToolchainError, OSError),
)


@app.command()
def main(  # noqa: PLR0913 - one for each part of the plan
    rounds: Annotated[int, typer.Option(min=1, help="How often each kind of pod has its turn.")] = (
        _DEFAULT.rounds
    ),
    pods: Annotated[int, typer.Option(min=10, help="Pods of each kind in a round, flat out.")] = (
        _DEFAULT.pods
    ),
    concurrency: Annotated[int, typer.Option(min=1, max=200, help="Requests in flight then.")] = (
        _DEFAULT.concurrency
    ),
    paced: Annotated[int, typer.Option(min=1, help="Pods of each kind in a round, paced.")] = (
        _DEFAULT.paced
    ),
    rate: Annotated[float, typer.Option(min=1, help="Pods a second then.")] = _DEFAULT.rate,
    turn: Annotated[
        int, typer.Option(min=1, help="Paced pods of a kind in a row; a divisor of --paced.")
    ] = _DEFAULT.turn,
    unguarded: Annotated[
        bool, typer.Option("--unguarded", help="Without the chart's policies: the webhook alone.")
    ] = False,
    strict: Annotated[bool, typer.Option(help="Exit with 1 if a goal is missed.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write all figures to this file.")
    ] = None,
) -> None:
    """Measure what pinning pods costs, beside the API server's own limit, on a fresh cluster."""
    if paced % turn:
        raise typer.BadParameter(
            f"{turn} is no divisor of --paced={paced}, so kinds would get unequal shares",
            param_hint="--turn",
        )
    compared = subjects.UNGUARDED if unguarded else subjects.SUBJECTS
    plan = Plan(rounds, pods, concurrency, paced, rate, turn, compared)
    out = Console(soft_wrap=True, highlight=False)
    try:
        goals = _measure(plan, out, json_file)
    except _EXPECTED as error:
        sys.stderr.write(f"Error: {error}\n")
        raise typer.Exit(1) from None
    if strict and not all(goal.met for goal in goals):
        raise typer.Exit(1)


def _measure(plan: Plan, out: Console, json_file: Path | None) -> list[report.Goal]:
    programs.build(out)
    with tempfile.TemporaryDirectory(prefix="schedclass-bench-") as name:
        folder = Path(name)
        with Cluster(folder / "cluster") as cluster:
            out.print("Starting a control plane and the operator on it …")
            cluster.start()
            cluster.create_nodes(3)
            guarded = {"enabled": subjects.POLICY in plan.subjects}
            installation = Installation(cluster, values={**subjects.VALUES, "policies": guarded})
            installation.start()
            subjects.create(cluster, plan.subjects)
            others = machine.ForeignLoad(cluster)
            bench = AdmissionBench(installation, LoadGenerator(cluster, folder), plan)
            measured = bench.run(lambda what: out.print(f"{what[0].upper()}{what[1:]} …"))
            busy = round(others.cores(), 2)
    facts = {**machine.facts(), "cores_used_by_others": busy}
    found = report.figures(measured)
    report.show(out, plan, facts, found)
    if busy > machine.QUIET_CORES:
        out.print(
            f"Beware: others kept {busy} of {facts['cores']} cores busy, so latencies say more "
            "about them than about admission; repeat this on a quiet machine."
        )
    if json_file is not None:
        document = report.as_json(plan, facts, found)
        json_file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return report.goals(found)


if __name__ == "__main__":
    app(prog_name="python -m bench")
