"""Our verdicts and scores against those of kube-scheduler's own plugins.

For us a pod and its class are two things; the stock plugins get the class written into the pod's
spec, and into those of the running pods. The environment may set the number of generated clusters
(SCHEDCLASS_CASES) and where the series begins (SCHEDCLASS_SEED); each case has a number of its own
and is the same in every run.
"""

import json
import os
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from schedclass.domain.nodes import parse_node
from schedclass.domain.scheduling import (
    Cluster,
    Decisions,
    Plugin,
    Pod,
    Rejection,
    Scope,
    compile_class,
    parse_pod,
)
from schedclass.domain.schedulingclass import parse_class
from tests.differential.clusters import FILL_KEYS, case
from tests.differential.merging import as_documented, merged
from tests.differential.oracle import Oracle
from tests.differential.shrinking import shrunk

CASES = int(os.environ.get("SCHEDCLASS_CASES", "5000"))
SEED = int(os.environ.get("SCHEDCLASS_SEED", "0"))
BATCH = 500

Json = Any
Check = Callable[[Oracle, Json], None]

PRE_FILTER = ("node(s) didn't satisfy plugin", "pod affinity terms conflict")
"""Texts with which NodeAffinity narrows the nodes by name before any plugin filters."""


def try_cases(check: Check, oracle: Oracle, batch: int) -> None:
    """Check a batch of cases; the first that fails is made small and told as JSON."""
    start = SEED + batch * BATCH
    for number in range(start, min(start + BATCH, SEED + CASES)):
        failing = case(Random(number))
        try:
            check(oracle, failing)
            continue
        except AssertionError:
            small = shrunk(
                failing, lambda smaller: disagreement(check, oracle, smaller) is not None
            )
        why = disagreement(check, oracle, small)
        pytest.fail(f"case {number}, made small: {why}\n{json.dumps(small)}", pytrace=False)


def disagreement(check: Check, oracle: Oracle, tried: Json) -> str | None:
    """What the check has against a case made small; one that was cut to pieces is no case."""
    try:
        check(oracle, tried)
    except AssertionError as error:
        return str(error)
    except (KeyError, TypeError, MalformedCaseError):
        return None
    return None


class MalformedCaseError(Exception):
    """Not a cluster that can exist."""


def merged_answer(oracle: Oracle, tried: Json) -> Json:
    """What the stock plugins say, per node, with classes written into the specs."""

    def with_class(pod: Json) -> Json:
        name = tried["class_of"].get(pod["metadata"]["namespace"])
        return merged(pod, tried["classes"][name] if name else None, FILL_KEYS)

    return ask(oracle, tried, [with_class(pod) for pod in tried["pods"]], with_class(tried["pod"]))


def ask(oracle: Oracle, tried: Json, pods: list[Json], pod: Json) -> Json:
    namespaces = [
        {"metadata": {"name": name, "labels": labels}}
        for name, labels in tried["namespaces"].items()
    ]
    pod = as_documented(pod, tried["namespaces"])
    answer = oracle.ask(nodes=tried["nodes"], namespaces=namespaces, pods=pods, pod=pod)
    return answer.get("nodes", {})


def build(oracle: Oracle, tried: Json, *, own_terms: bool) -> tuple[Cluster, Pod]:
    """The case as our index, and the pod to be placed, as the API server would store it."""
    cluster = Cluster(default_label_keys=FILL_KEYS, own_terms=own_terms)
    for node in tried["nodes"]:
        cluster.put_node(parse_node(node))
    for name, spec in tried["classes"].items():
        cls = parse_class({"metadata": {"name": name}, "spec": spec})
        if cls.errors:
            raise MalformedCaseError(cls.errors)
        cluster.put_class(compile_class(cls))
    for name, labels in tried["namespaces"].items():
        cluster.put_namespace(name, labels, tried["class_of"].get(name))
    answer = oracle.ask(admit=[tried["pod"], *tried["pods"]])
    if answer.get("invalid"):
        raise MalformedCaseError(answer["invalid"])
    pod, *running = map(parse_pod, answer["admitted"])
    for other in running:
        cluster.put_pod(other)
    return cluster, pod


def code(why: Rejection | None) -> str:
    """The rejection as a code of kube-scheduler."""
    if why is None:
        return "Success"
    return "Unschedulable" if why.preemptible else "UnschedulableAndUnresolvable"


def check_merged(oracle: Oracle, tried: Json) -> None:
    cluster, pod = build(oracle, tried, own_terms=True)
    truth = merged_answer(oracle, tried)
    names = list(truth)
    decisions = Decisions(cluster, Scope.MERGED)
    reasons: dict[str, Rejection] = {}
    passing = decisions.filter(pod, names, reasons)
    assert passing == [name for name in names if truth[name]["code"] == "Success"], "filter"
    assert decisions.filter(pod, names) == passing, "filter without reasons"

    told = decisions.explain(pod, names)
    for name in names:
        for plugin, alone in truth[name]["plugins"].items():
            why = told[name].get(Plugin(plugin))
            assert code(why) == alone["code"], f"{plugin} about {name}: {why}, {alone}"
        first = reasons.get(name)
        assert decisions.why_not(pod, name) == first, f"{name} alone is judged differently"
        if first is not None and not truth[name]["reason"].startswith(PRE_FILTER):
            assert first.plugin == truth[name]["plugin"], f"first to reject {name}: {first}"
            assert first.class_name or first.message == truth[name]["reason"], "message"

    scores = decisions.score(pod, passing)
    for plugin in (plugin for plugin in Plugin if plugin is not Plugin.CLASS):
        ours = list(scores.by_plugin.get(plugin, [0] * len(passing)))
        theirs = [truth[name]["scores"].get(plugin.value, 0) for name in passing]
        assert ours == theirs, f"scores of {plugin} for {passing}: {ours}, not {theirs}"
    assert scores.totals() == [truth[name]["total"] for name in passing], "weighted sums"


@pytest.mark.parametrize("batch", range(-(-CASES // BATCH)))
def test_a_pod_with_a_class_is_judged_like_a_pod_that_carries_it(
    oracle: Oracle, batch: int
) -> None:
    try_cases(check_merged, oracle, batch)


def check_split(oracle: Oracle, tried: Json) -> None:
    """The extender beside a scheduler that judges only specs, against one that judges both."""
    cluster, pod = build(oracle, tried, own_terms=False)
    together = merged_answer(oracle, tried)
    in_tree = ask(oracle, tried, tried["pods"], tried["pod"])
    decisions = Decisions(cluster, Scope.CLASS)
    own = pod.own
    class_name = cluster.class_name_of(pod)
    cls = cluster.get_class(class_name) if class_name else None
    both_attract = bool(own.affinity and cls and cls.constraints and cls.constraints.affinity)
    for name, merged_verdict in together.items():
        why = decisions.why_not(pod, name)
        allowed = merged_verdict["code"] == "Success"
        by_spec = in_tree[name]["code"] == "Success"
        assert why is None or why.class_name, f"{name} is rejected for what is no class' rule"
        assert why is None or not allowed, f"{name}: {why}"
        # In-tree, a pod's own hard spread counts nodes that its class forbids, and a first pod's
        # own affinity terms are met by pods that do not match those of its class.
        if not own.hard_spread:
            assert allowed or not (by_spec and why is None), f"{name} gets through"
            assert by_spec or both_attract or not allowed, f"{name} is held back in-tree"


@pytest.mark.parametrize("batch", range(-(-CASES // BATCH)))
def test_the_class_part_beside_the_stock_plugins_gives_the_same_verdicts(
    oracle: Oracle, batch: int
) -> None:
    try_cases(check_split, oracle, batch)
