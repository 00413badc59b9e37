"""Our scheduler beside the stock one: `python -m bench.scheduler`, also `make bench-scheduler`."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from bench import machine, placing
from bench.load import BenchError
from bench.placing import EXTENDER, OURS, ROWS, SCHEDULER, STOCK, Placing, Row, Turn
from bench.report import Goal
from controlplane import ApiError, Cluster, HelmError, Installation, NotInTimeError, ProcessError
from controlplane import build as programs
from controlplane.toolchain import ToolchainError
from schedclass.kube.client import KubeClient
from schedclass.kube.credentials import kubeconfig

EXTENDER_MS = 1.5

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_EXPECTED = (
    *(BenchError, ApiError, HelmError, NotInTimeError, ProcessError),
    *(programs.BuildError, ToolchainError, OSError),
)


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes:
        sizes: numbers of nodes, each on a control plane of its own.
        pods: of each turn.
        rounds: how often both schedulers have their turn with each class.
        running: pods that run before.
        rows: keys of the classes.
        nomination: the chart's values of that name.
    """

    sizes: tuple[int, ...]
    pods: int
    rounds: int
    running: int
    rows: tuple[str, ...]
    nomination: Mapping[str, Any]


@dataclass(frozen=True)
class Comparison:
    """All turns with one class on one size of cluster; those of a round belong together."""

    row: Row
    nodes: int
    turns: Mapping[str, Sequence[Turn]]

    def median(self, who: str, of: Callable[[Turn], float]) -> float:
        """The median over rounds."""
        return statistics.median(of(turn) for turn in self.turns[who])

    @property
    def ratios(self) -> list[float]:
        """Our pods per second of the stock scheduler's, round by round."""
        pairs = zip(self.turns[OURS], self.turns[STOCK], strict=True)
        return [ours.per_second / stock.per_second for ours, stock in pairs]

    @property
    def cpu_ratio(self) -> float:
        """Our CPU per pod of the stock scheduler's."""
        ours, stock = (self.median(who, _whole_cpu) for who in (OURS, STOCK))
        return ours / stock

    @property
    def extender_ms(self) -> float:
        """CPU of the extender per pod."""
        return self.median(OURS, lambda turn: turn.cpu_ms[EXTENDER])

    def quantile(self, part: float) -> float:
        """Milliseconds of filter, from its histogram."""
        total: dict[float, float] = {}
        for turn in self.turns[OURS]:
            for bound, count in turn.filters.items():
                total[bound] = total.get(bound, 0) + count
        return 1000 * quantile(total, part)


def _whole_cpu(turn: Turn) -> float:
    return sum(turn.cpu_ms.values())


def quantile(cumulated: Mapping[float, float], part: float) -> float:
    """A quantile of a histogram, straight between the bounds, as PromQL does it.

    Args:
        cumulated: counts at or below each upper bound.
        part: 0.5 for the median.
    """
    wanted = part * max(cumulated.values(), default=0)
    lower, below = 0.0, 0.0
    for bound, count in sorted(cumulated.items()):
        if count >= wanted and count > below:
            if bound == float("inf"):
                return lower
            return lower + (bound - lower) * (wanted - below) / (count - below)
        lower, below = bound, count
    return lower


def goals(comparisons: Sequence[Comparison]) -> list[Goal]:
    """What was to be reached, and what was."""
    found = []
    for one in comparisons:
        name = f"{one.nodes} nodes, {one.row.title}"
        ratio = statistics.median(one.ratios)
        found += [
            Goal(f"{name}: pods/s of stock", "1.00", f"{ratio:.2f}", ratio >= 1),
            Goal(f"{name}: CPU of stock", "1.00", f"{one.cpu_ratio:.2f}", one.cpu_ratio <= 1),
            Goal(
                f"{name}: CPU of the extender",
                f"{EXTENDER_MS} ms",
                f"{one.extender_ms:.2f} ms",
                one.extender_ms <= EXTENDER_MS,
            ),
        ]
    return found


async def compare(
    plan: Plan, size: int, cluster: Cluster, folder: Path, out: Console
) -> list[Comparison]:
    """Everything on one control plane."""
    extra = {"nomination": plan.nomination}
    operator = Installation(
        cluster, values=placing.values(extra), env=placing.LEASE_ENV, replicas=1
    )
    operator.install_chart()
    async with await KubeClient.load(
        role="bench", source=kubeconfig(str(cluster.kubeconfig))
    ) as admin:
        bench = Placing(cluster, operator, admin, folder)
        out.print(f"{size} nodes: creating them …")
        await bench.prepare(size)
        if plan.running:
            out.print(f"{plan.running} running pods …")
            await bench.run_pods(plan.running)
        placing.limits(cluster)
        for name in (EXTENDER, SCHEDULER):
            operator.start_replica(name)
        comparisons = []
        for row in (row for row in ROWS if row.key in plan.rows):
            turns: dict[str, list[Turn]] = {OURS: [], STOCK: []}
            for number in range(plan.rounds):
                order = (OURS, STOCK) if number % 2 else (STOCK, OURS)
                for who in order:
                    turn = await bench.turn(row, who, plan.pods)
                    turns[who].append(turn)
                    out.print(_line(size, row, who, turn))
            comparisons.append(Comparison(row, size, turns))
        return comparisons


def _line(size: int, row: Row, who: str, turn: Turn) -> str:
    cpu = " + ".join(f"{value:.2f}" for value in turn.cpu_ms.values())
    counted = ", ".join(
        f"{name} {count:g}" for name, count in turn.results.items() if not name.endswith("created")
    )
    return f"{size} nodes, {row.title}, {who}: {turn.per_second:.0f} pods/s, CPU {cpu} ms/pod" + (
        f" ({counted})" if counted else ""
    )


def show(out: Console, comparisons: Sequence[Comparison]) -> None:
    """Prints the table and the goals."""
    table = Table(title="ours / stock, medians over rounds", box=SIMPLE_HEAD, title_justify="left")
    for heading in (
        *("nodes", "class", "pods/s", "of stock", "least", "most", "CPU ms/pod", "of stock"),
        *("extender ms", "RSS MiB", "filter p50/p99 ms"),
    ):
        table.add_column(heading)
    for one in comparisons:
        rates = [one.median(who, lambda turn: turn.per_second) for who in (OURS, STOCK)]
        used = [one.median(who, _whole_cpu) for who in (OURS, STOCK)]
        resident = [
            "+".join(f"{size / 2**20:.0f}" for size in one.turns[who][-1].rss.values())
            for who in (OURS, STOCK)
        ]
        table.add_row(
            str(one.nodes),
            one.row.title,
            " / ".join(f"{rate:.0f}" for rate in rates),
            f"{statistics.median(one.ratios):.2f}",
            f"{min(one.ratios):.2f}",
            f"{max(one.ratios):.2f}",
            " / ".join(f"{value:.1f}" for value in used),
            f"{one.cpu_ratio:.2f}",
            f"{one.extender_ms:.2f}",
            " / ".join(resident),
            f"{one.quantile(0.5):.2f} / {one.quantile(0.99):.2f}",
        )
    out.print(table)
    missed = [goal for goal in goals(comparisons) if not goal.met]
    for goal in missed:
        out.print(f"missed: {goal.text}: {goal.measured} (goal: {goal.wanted})")
    if not missed:
        out.print("All goals are met.")


def as_json(plan: Plan, comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """All figures."""
    return {
        "plan": asdict(plan),
        "machine": machine.facts(),
        "goals": [asdict(goal) for goal in goals(comparisons)],
        "turns": [
            {"nodes": one.nodes, "class": one.row.key, "who": who, **asdict(turn)}
            for one in comparisons
            for who, turns in one.turns.items()
            for turn in turns
        ],
    }


@app.command()
def main(  # noqa: PLR0913 - one for each part of the plan
    nodes: Annotated[list[int] | None, typer.Option(min=20, help="Sizes of clusters.")] = None,
    pods: Annotated[int, typer.Option(min=10, max=900, help="Pods of each turn.")] = 600,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of both with each class.")] = 3,
    running: Annotated[int, typer.Option(min=0, help="Pods that run before.")] = 1000,
    rows: Annotated[
        list[str] | None,
        typer.Option("--class", help=f"Only these of {', '.join(row.key for row in ROWS)}."),
    ] = None,
    short: Annotated[bool, typer.Option(help="1,000 nodes, one round of 300 pods.")] = False,
    nomination: Annotated[bool, typer.Option(help="Let ours name nodes for pods.")] = True,
    hints_from: Annotated[
        int | None, typer.Option(min=1, help="Beforehand only in clusters of so many nodes.")
    ] = None,
    strict: Annotated[bool, typer.Option(help="Exit with 1 if a goal is missed.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write all figures to this file.")
    ] = None,
) -> None:
    """Measure placing pods by class beside the stock scheduler with the same in the pods' specs."""
    out = Console(soft_wrap=True, highlight=False)
    keys = tuple(rows or (row.key for row in ROWS))
    unknown = set(keys) - {row.key for row in ROWS}
    if unknown:
        raise typer.BadParameter(f"there is no class {', '.join(sorted(unknown))}")
    values: dict[str, Any] = {"enabled": nomination}
    if hints_from is not None:
        values["leastNodes"] = hints_from
    plan = Plan(tuple(nodes or (1000, 5000)), pods, rounds, running, keys, values)
    if short:
        plan = Plan(tuple(nodes or (1000,)), min(pods, 300), 1, running, keys, values)
    try:
        comparisons = _measure(plan, out)
    except _EXPECTED as error:
        sys.stderr.write(f"Error: {error}\n")
        raise typer.Exit(1) from None
    show(out, comparisons)
    if json_file is not None:
        document = as_json(plan, comparisons)
        json_file.write_text(json.dumps(document, indent=1, default=str) + "\n", encoding="utf-8")
    if strict and not all(goal.met for goal in goals(comparisons)):
        raise typer.Exit(1)


def _measure(plan: Plan, out: Console) -> list[Comparison]:
    programs.build(out)
    found: list[Comparison] = []
    for size in plan.sizes:
        with tempfile.TemporaryDirectory(prefix="schedclass-placing-") as name:
            folder = Path(name)
            with (
                Cluster(folder / "cluster", audit=False) as cluster,
                asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
            ):
                found += runner.run(compare(plan, size, cluster, folder, out))
    return found


if __name__ == "__main__":
    app(prog_name="python -m bench.scheduler")
