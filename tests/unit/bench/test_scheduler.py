"""Figures of the scheduler's bench."""

import pytest

from bench.placing import ROWS
from bench.scheduler import quantile

INF = float("inf")


def test_a_quantile_lies_straight_between_the_bounds_of_its_bucket() -> None:
    counts = {0.001: 50.0, 0.002: 90.0, 0.01: 100.0, INF: 100.0}
    assert quantile(counts, 0.5) == pytest.approx(0.001)
    assert quantile(counts, 0.7) == pytest.approx(0.0015)
    assert quantile(counts, 0.99) == pytest.approx(0.0092)


def test_beyond_the_last_bound_it_is_that_bound_and_of_nothing_it_is_nothing() -> None:
    assert quantile({0.001: 1.0, INF: 10.0}, 0.99) == 0.001
    assert quantile({}, 0.5) == 0.0


def test_a_pod_has_the_constraints_of_its_class_where_pods_have_them() -> None:
    by_key = {row.key: row.pod_spec for row in ROWS}
    assert by_key["ten"] == {"nodeSelector": {"bench-pool": "small"}}
    assert set(by_key["apart"]["affinity"]) == {"podAntiAffinity"}
    assert set(by_key["spread"]) == {"topologySpreadConstraints"}


def test_placements_are_checked_by_what_the_class_says() -> None:
    host, zone = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
    rows = {row.key: row.holds for row in ROWS}
    a, b, c = ({host: f"n-{name}", zone: name} for name in "abc")
    assert rows["apart"]([a, b])
    assert not rows["apart"]([a, a])
    assert rows["spread"]([a, b, c, a])
    assert not rows["spread"]([a, a])
    assert not rows["third"]([a, b])
