"""What the chart grants."""

from controlplane.installation import NAMESPACE, RELEASE
from controlplane.programs import program
from controlplane.rights import Right, granted
from tests.chart.rendering import Chart


def chart_rights() -> list[Right]:
    """Every right of every role, with the chart's default values."""
    return granted(Chart(program("helm")).render(release=RELEASE, namespace=NAMESPACE))
