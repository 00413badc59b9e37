"""The benches install the chart with values of their own, which it must go on accepting."""

from collections.abc import Mapping
from typing import Any

import pytest

from bench import placing, subjects
from tests.chart.rendering import Chart

GUARDED = {"policies": {"enabled": True}}
VALUES = {
    "admission": {**subjects.VALUES, **GUARDED},
    "admission without policies": {**subjects.VALUES, "policies": {"enabled": False}},
    "placing": placing.values(),
    "placing without hints": placing.values({"nomination": {"enabled": False}}),
    "scale, at first": placing.NO_ADMISSION,
    "scale": {"webhook": {"url": "https://127.0.0.1:9443"}, "policies": {}},
}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
def test_what_a_bench_installs_is_no_contradiction(chart: Chart, values: Mapping[str, Any]) -> None:
    assert chart.render(dict(values)).all("Deployment")
