"""Figures, goals and tables from what was measured."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from bench.admission import Measurements, Plan
from bench.load import COMPONENTS, Outcome
from bench.subjects import BARE_POLICY, POLICY, UNPINNED, WEBHOOK, Subject

ADDED_MEDIAN_MS = 2.5
ADDED_P99_MS = 10.0

POLICIES = (POLICY, BARE_POLICY)

_BY_THE_CLOCK = ("list ", "watch ", "get leases")
"""Caches are listed and watched anew after some minutes, and the scheduler's Lease is read after
some seconds, whatever the load."""


@dataclass(frozen=True)
class Goal:
    """One goal beside what was measured."""

    text: str
    wanted: str
    measured: str
    met: bool


def figures(found: Measurements) -> dict[str, Any]:
    """Returns all figures as JSON: `saturation`, `paced` (by subject), `requests`, `memory`."""
    paced = {key: _latency(found.paced, key) for key in found.cpu}
    plain = paced[UNPINNED.key]
    for latency in paced.values():
        for name in ("median", "p99"):
            latency[f"added_{name}_ms"] = latency[f"{name}_ms"] - plain[f"{name}_ms"]
    return {
        "saturation": {
            key: {
                "pods_per_second": statistics.median(r[key].per_second for r in found.saturation),
                "of_unpinned": _spread(ratios(found.saturation, key, UNPINNED.key)),
                "reviews_per_pod": found.reviews[key],
                "cpu_ms_per_pod": {name: 1000 * used for name, used in found.cpu[key].items()},
            }
            for key in found.cpu
        },
        "webhook_of_policy": {
            policy.key: _spread(ratios(found.saturation, WEBHOOK.key, policy.key))
            for policy in POLICIES
            if policy.key in found.cpu
        },
        "paced": paced,
        "pods": found.pods,
        "pods_not_as_they_should_be": sum(
            outcome.wrong for each in (*found.saturation, *found.paced) for outcome in each.values()
        ),
        "requests_of_the_webhook": found.requests,
        "memory_mib": found.memory / 2**20,
    }


def ratios(rounds: Iterable[Mapping[str, Outcome]], of: str, to: str) -> list[float]:
    """Returns the throughput of one subject relative to another's in the same round."""
    return [each[of].per_second / each[to].per_second for each in rounds]


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def _latency(rounds: Iterable[Mapping[str, Outcome]], key: str) -> dict[str, float]:
    sample = sorted(latency for each in rounds for latency in each[key].latencies)
    return {
        f"{name}_ms": 1000 * percentile(sample, part)
        for name, part in (("median", 0.5), ("p90", 0.9), ("p99", 0.99), ("most", 1.0))
    }


def percentile(ascending: Sequence[float], part: float) -> float:
    """Returns the smallest value that at least this part of the sample does not exceed."""
    return ascending[max(math.ceil(part * len(ascending)) - 1, 0)]


def goals(found: Mapping[str, Any]) -> list[Goal]:
    """Returns every goal with what `figures` says about it."""
    added = found["paced"][WEBHOOK.key]
    requests = {k: n for k, n in found["requests_of_the_webhook"].items() if _counts(k)}
    return [
        *(_throughput(found, p) for p in POLICIES if p.key in found["webhook_of_policy"]),
        _at_most("latency added at the median", added["added_median_ms"], ADDED_MEDIAN_MS),
        _at_most("latency added at p99", added["added_p99_ms"], ADDED_P99_MS),
        Goal(
            f"pods not pinned as they should be, of {found['pods']}",
            "0",
            str(found["pods_not_as_they_should_be"]),
            not found["pods_not_as_they_should_be"],
        ),
        Goal(
            f"API requests for {found['pods']} pods",
            "0",
            ", ".join(f"{number} {what}" for what, number in requests.items()) or "0",
            not requests,
        ),
    ]


def _throughput(found: Mapping[str, Any], policy: Subject) -> Goal:
    ratio = found["webhook_of_policy"][policy.key]["median"]
    text = f"throughput, relative to the {policy.title}"
    return Goal(text, "at least 1.00", f"{ratio:.2f}", ratio >= 1)


def _counts(request: str) -> bool:
    return not request.startswith(_BY_THE_CLOCK)


def _at_most(text: str, milliseconds: float, limit: float) -> Goal:
    measured = f"{milliseconds:.2f} ms"
    return Goal(text, f"at most {limit:.1f} ms", measured, milliseconds <= limit)


def as_json(
    plan: Plan, machine: Mapping[str, object], found: Mapping[str, Any]
) -> dict[str, object]:
    """Returns the whole report as JSON."""
    return {
        "plan": {**asdict(plan), "subjects": [subject.key for subject in plan.subjects]},
        "machine": dict(machine),
        "goals": [asdict(goal) for goal in goals(found)],
        **found,
    }


def show(out: Console, plan: Plan, machine: Mapping[str, object], found: Mapping[str, Any]) -> None:
    """Prints tables and goals."""
    out.print()
    for name, value in machine.items():
        out.print(f"{name.replace('_', ' ')}: {value}")
    for subject in plan.subjects:
        out.print(f"{subject.title}: {subject.meaning}")
    for table in (_saturation(plan, found), _cpu(plan, found), _paced(plan, found), _goals(found)):
        out.print()
        out.print(table)
    renewed = {k: n for k, n in found["requests_of_the_webhook"].items() if not _counts(k)}
    if renewed:
        names = ", ".join(f"{number} {what}" for what, number in renewed.items())
        out.print(f"Not counted, as caches are renewed by the clock: {names}.")
    out.print(f"Memory of a webhook replica: {found['memory_mib']:.0f} MiB resident.")


def _saturation(plan: Plan, found: Mapping[str, Any]) -> Table:
    title = f"{plan.concurrency} requests in flight, {plan.rounds} rounds of {plan.pods} pods"
    table = _table(title, "pods/s", "of unpinned", "least", "most", "reviews/pod")
    for subject in plan.subjects:
        row = found["saturation"][subject.key]
        ratio = row["of_unpinned"]
        table.add_row(
            subject.title,
            f"{row['pods_per_second']:.0f}",
            *(f"{ratio[name]:.2f}" for name in ("median", "least", "most")),
            f"{row['reviews_per_pod']:.2f}",
        )
    return table


def _cpu(plan: Plan, found: Mapping[str, Any]) -> Table:
    names = ("webhook", *COMPONENTS)
    table = _table("CPU for each pod meanwhile, ms", *names, "together")
    for subject in plan.subjects:
        used = found["saturation"][subject.key]["cpu_ms_per_pod"]
        values = [used[name] for name in names]
        table.add_row(subject.title, *(f"{value:.2f}" for value in (*values, sum(values))))
    return table


def _paced(plan: Plan, found: Mapping[str, Any]) -> Table:
    number = plan.rounds * plan.paced
    title = f"{plan.rate:g} requests a second by the clock, {number} pods each, latency in ms"
    table = _table(title, "median", "p90", "p99", "most", "+ median", "+ p99")
    names = ("median_ms", "p90_ms", "p99_ms", "most_ms", "added_median_ms", "added_p99_ms")
    for subject in plan.subjects:
        row = found["paced"][subject.key]
        table.add_row(subject.title, *(f"{row[name]:.2f}" for name in names))
    return table


def _goals(found: Mapping[str, Any]) -> Table:
    table = Table("Goals", "goal", "measured", "", box=SIMPLE_HEAD)
    for goal in goals(found):
        table.add_row(goal.text, goal.wanted, goal.measured, "met" if goal.met else "MISSED")
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table
