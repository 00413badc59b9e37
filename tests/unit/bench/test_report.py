"""The benchmark's verdict: it must be right about what it measured, above all when it is bad."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from bench import report
from bench.admission import Measurements, Plan
from bench.load import COMPONENTS, Outcome
from bench.subjects import POLICY, SUBJECTS, UNGUARDED, UNPINNED, WEBHOOK

FAST = Outcome(seconds=1.0, latencies=(0.002,) * 100, wrong=0)


def measured(**changed: Any) -> Measurements:
    """Two rounds in which all subjects do alike, with some attributes changed."""
    keys = [subject.key for subject in SUBJECTS]
    return Measurements(
        **{
            "saturation": [dict.fromkeys(keys, FAST) for _ in range(2)],
            "paced": [dict.fromkeys(keys, FAST) for _ in range(2)],
            "cpu": {key: dict.fromkeys(("webhook", *COMPONENTS), 0.001) for key in keys},
            "reviews": {s.key: float(s.reviews) for s in SUBJECTS},
            "pods": 1600,
            "memory": 80 << 20,
            **changed,
        }
    )


def missed(found: Measurements) -> list[str]:
    return [goal.text for goal in report.goals(report.figures(found)) if not goal.met]


def slower(key: str, seconds: float) -> list[dict[str, Outcome]]:
    outcome = Outcome(1.0, (0.002 + seconds,) * 100, 0)
    return [{**each, key: outcome} for each in measured().paced]


def test_every_goal_is_met_when_pinning_costs_nothing() -> None:
    assert missed(measured()) == []


def test_fewer_pods_a_second_than_the_policy_takes_miss_the_goal() -> None:
    slow = Outcome(1.01, FAST.latencies, 0)
    rounds = [{**each, WEBHOOK.key: slow} for each in measured().saturation]
    assert missed(measured(saturation=rounds)) == [
        "throughput, relative to the policy",
        "throughput, relative to the bare policy",
    ]


def test_without_policies_the_webhook_is_compared_with_what_is_unguarded_too() -> None:
    keys = [subject.key for subject in UNGUARDED]
    rounds = [dict.fromkeys(keys, FAST)]
    cpu = {key: dict.fromkeys(("webhook", *COMPONENTS), 0.001) for key in keys}
    figures = report.figures(measured(saturation=rounds, paced=rounds, cpu=cpu))
    texts = [goal.text for goal in report.goals(figures)]
    assert texts[0] == "throughput, relative to the bare policy"
    assert not any("relative to the policy" in text for text in texts)
    out = io.StringIO()
    report.show(Console(file=out, width=100), Plan(subjects=UNGUARDED), {"cores": 2}, figures)
    assert "the chart's policies are off" in out.getvalue()


def test_throughput_is_compared_within_a_round_so_that_drift_does_not_count() -> None:
    rounds = [
        dict.fromkeys((s.key for s in SUBJECTS), Outcome(seconds, FAST.latencies, 0))
        for seconds in (1.0, 10.0, 3.0)
    ]
    assert report.ratios(rounds, WEBHOOK.key, POLICY.key) == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("milliseconds", "met"), [(2.4, True), (2.6, False)])
def test_latency_added_to_that_of_unpinned_pods_is_what_counts(
    milliseconds: float, met: bool
) -> None:
    found = measured(paced=slower(WEBHOOK.key, milliseconds / 1000))
    assert ("latency added at the median" not in missed(found)) is met


def test_a_slow_baseline_does_not_excuse_a_slow_webhook() -> None:
    outcome = Outcome(1.0, (0.1,) * 100, 0)
    rounds = [{**each, UNPINNED.key: outcome} for each in slower(WEBHOOK.key, 0.120)]
    assert missed(measured(paced=rounds)) == [
        "latency added at the median",
        "latency added at p99",
    ]


def test_a_pod_that_slipped_through_is_reported() -> None:
    rounds = [{**each, WEBHOOK.key: Outcome(1.0, FAST.latencies, 1)} for each in measured().paced]
    (text,) = missed(measured(paced=rounds))
    assert text.startswith("pods not pinned as they should be")


def test_a_request_for_each_pod_is_reported_and_a_new_list_is_not() -> None:
    assert missed(measured(requests={"list nodes": 2, "watch nodes": 3, "get leases": 4})) == []
    assert missed(measured(requests={"get namespaces": 1})) == ["API requests for 1600 pods"]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=300), st.floats(0, 1))
def test_a_percentile_is_a_member_that_enough_of_the_sample_does_not_exceed(
    sample: list[int], part: float
) -> None:
    ascending = sorted(float(value) for value in sample)
    found = report.percentile(ascending, part)
    assert sum(value <= found for value in ascending) >= part * len(ascending)
    assert sum(value < found for value in ascending) < max(part * len(ascending), 1)


def test_the_tables_say_which_goal_was_missed() -> None:
    out = io.StringIO()
    figures = report.figures(measured(requests={"get namespaces": 7, "list nodes": 1}))
    report.show(Console(file=out, width=100), Plan(), {"cores": 2}, figures)
    lines = out.getvalue().splitlines()
    (missed_line,) = [line for line in lines if "MISSED" in line]
    assert "7 get namespaces" in missed_line
    assert "list nodes" not in missed_line
