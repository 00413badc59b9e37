"""What one decision costs in the scheduling domain alone: no HTTP, no API server.

Run with `python -m bench.scheduling_domain`. Two things are to be seen: the cost of a decision
does not grow with the number of running pods, and it grows gently with the number of nodes.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from schedclass.domain.names import HOSTNAME_LABEL, LINEAGE_LABELS, ZONE_LABEL
from schedclass.domain.nodes import Node
from schedclass.domain.scheduling import (
    Cluster,
    Decisions,
    Pod,
    Scope,
    compile_class,
    parse_pod,
)
from schedclass.domain.schedulingclass import parse_class

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ZONES = ("a", "b", "c")
APPS = 50
TENANTS = 20

CLASSES: dict[str, Mapping[str, Any]] = {
    "a third of the nodes": {"nodeSelector": {ZONE_LABEL: "a"}},
    "ten nodes": {"nodeSelector": {"pool": "small"}},
    "apart by hostname": {"podAntiAffinity": {REQUIRED: [{"topologyKey": HOSTNAME_LABEL}]}},
    "zone spread": {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": ZONE_LABEL, "whenUnsatisfiable": "DoNotSchedule"}
        ]
    },
    "hostname spread": {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": HOSTNAME_LABEL, "whenUnsatisfiable": "DoNotSchedule"}
        ]
    },
    "preferences": {
        "nodeAffinity": {
            PREFERRED: [
                {
                    "weight": 10,
                    "preference": {
                        "matchExpressions": [{"key": ZONE_LABEL, "operator": "In", "values": ["a"]}]
                    },
                }
            ]
        },
        "podAntiAffinity": {
            PREFERRED: [{"weight": 10, "podAffinityTerm": {"topologyKey": HOSTNAME_LABEL}}]
        },
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": ZONE_LABEL, "whenUnsatisfiable": "ScheduleAnyway"}
        ],
    },
}


@dataclass(frozen=True)
class Costs:
    """Microseconds, medians: of filter, of score, of the check at binding, of one pod event."""

    filter: float
    score: float
    check: float
    event: float


def a_node(number: int) -> Node:
    """A node in one of three zones; ten of them are of the small pool."""
    labels = {HOSTNAME_LABEL: f"node-{number}", ZONE_LABEL: ZONES[number % len(ZONES)]}
    if number < 10:
        labels["pool"] = "small"
    return Node(f"node-{number}", labels=labels, ready=True)


def a_pod(number: int, nodes: int = 0) -> Pod:
    """A pod of one of the applications; without nodes it is yet to be placed."""
    app = number % APPS
    name = f"app-{app}"
    labels = dict(zip(LINEAGE_LABELS, ("apps.example.org", "Postgres", name), strict=True))
    return parse_pod(
        {
            "metadata": {
                "name": f"{name}-{number}",
                "uid": f"uid-{number}",
                "namespace": f"tenant-{app % TENANTS}",
                "labels": {**labels, "app": name, "pod-template-hash": "5d4f8c7b6"},
            },
            "spec": {"nodeName": f"node-{number * 7 % nodes}"} if nodes else {},
        },
        prospects=True,
    )


def populated(spec: Mapping[str, Any], nodes: int, pods: int) -> Cluster:
    """A cluster in which every tenant has the class."""
    cluster = Cluster(default_label_keys=LINEAGE_LABELS, own_terms=False)
    cluster.put_class(compile_class(parse_class({"metadata": {"name": "class"}, "spec": spec})))
    for number in range(TENANTS):
        cluster.put_namespace(f"tenant-{number}", {}, "class")
    for number in range(nodes):
        cluster.put_node(a_node(number))
    for number in range(pods):
        cluster.put_pod(a_pod(number, nodes))
    return cluster


def microseconds(work: Callable[[int], object], times: int) -> float:
    """The median CPU time of one call; calls are told apart by number."""

    def durations() -> Iterator[float]:
        for number in range(times):
            start = time.process_time()
            work(number)
            yield (time.process_time() - start) * 1e6

    return statistics.median(durations())


def measure(spec: Mapping[str, Any], nodes: int, pods: int, times: int) -> Costs:
    """Measure on a warm index, with pods of all applications in turn."""
    cluster = populated(spec, nodes, pods)
    decisions = Decisions(cluster, Scope.CLASS)
    names = [f"node-{number}" for number in range(nodes)]
    waiting = [a_pod(pods + number) for number in range(APPS)]
    for pod in waiting:
        decisions.score(pod, decisions.filter(pod, names))
    gc.collect()

    def event(number: int) -> None:
        cluster.put_pod(a_pod(pods + APPS + number, nodes))

    def turn(number: int) -> Pod:
        return waiting[number % APPS]

    return Costs(
        filter=microseconds(lambda n: decisions.filter(turn(n), names), times),
        score=microseconds(lambda n: decisions.score(turn(n), names), max(times // 10, APPS)),
        check=microseconds(lambda n: decisions.why_not(turn(n), names[n % nodes]), times),
        event=microseconds(event, times),
    )


def main(
    times: Annotated[int, typer.Option(min=1, help="Decisions per figure.")] = 500,
) -> None:
    """Measure decisions for several classes over growing clusters."""
    table = Table(title="Microseconds of CPU per decision, median")
    for heading in ("class", "nodes", "running pods", "filter", "score", "check", "pod event"):
        table.add_column(heading, justify="left" if heading == "class" else "right")
    for name, spec in CLASSES.items():
        for nodes, pods in ((1000, 1000), (1000, 20_000), (5000, 1000), (5000, 20_000)):
            costs = measure(spec, nodes, pods, times)
            figures = (costs.filter, costs.score, costs.check, costs.event)
            table.add_row(name, str(nodes), str(pods), *(f"{value:.0f}" for value in figures))
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
