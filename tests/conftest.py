"""What holds for every test, whichever machine it runs on."""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import distribution

# A machine that others use as well is slow, not wrong.
settings.register_profile(
    "any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any-machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: distribution.rank(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Only `--dist loadfile` keeps files together; all others deal out as ever."""
    if config.getoption("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False  # by number of tests, which says little of their time
    return distribution.LongestFirst(config, log)
