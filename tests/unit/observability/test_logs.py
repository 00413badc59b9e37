import io
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedclass.observability.logs import JsonFormatter, TextFormatter, configure_logging
from schedclass.settings import LogFormat, LogLevel

TOUCHED = ("", "kopf", "kopf.objects", "aiohttp", "asyncio", "kubernetes")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Logging is a global of the process: it is put back afterwards."""
    root = logging.getLogger()
    handlers = list(root.handlers)
    levels = {name: logging.getLogger(name).level for name in TOUCHED}
    yield io.StringIO()
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_line_is_one_json_object_with_the_agreed_keys(stream: io.StringIO) -> None:
    configure_logging(LogLevel.INFO, LogFormat.JSON, stream=stream)
    extra = {"k8s": {"namespace": "tenant-a"}, "reason": "NodeNotAllowed", "duration_ms": 1.5}
    logging.getLogger("schedclass.webhook").info("denied: %s", "no\nplace", extra=extra)
    (line,) = lines(stream)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("ts"))
    assert line == {
        "level": "INFO",
        "logger": "schedclass.webhook",
        "msg": "denied: no\nplace",
        **extra,
    }


def test_failure_carries_its_traceback(stream: io.StringIO) -> None:
    configure_logging(LogLevel.INFO, LogFormat.JSON, stream=stream)
    try:
        int("x")
    except ValueError:
        logging.getLogger("schedclass").exception("failed")
    (line,) = lines(stream)
    assert line["traceback"].startswith("Traceback")
    assert line["level"] == "ERROR"


def test_level_and_libraries_are_held_back(stream: io.StringIO) -> None:
    configure_logging(LogLevel.INFO, LogFormat.JSON, engine_reports=False, stream=stream)
    logging.getLogger("schedclass").debug("no")
    for name in ("kopf", "kopf._core.engines", "aiohttp.access", "asyncio"):
        logging.getLogger(name).info("no")
        logging.getLogger(name).warning("yes")
    logging.getLogger("kopf.objects").error("told by the admission server already")
    assert [line["msg"] for line in lines(stream)] == ["yes"] * 4


def test_engine_reports_in_the_controller(stream: io.StringIO) -> None:
    configure_logging(LogLevel.ERROR, LogFormat.JSON, stream=stream)
    objects = logging.getLogger("kopf.objects")
    objects.warning("no")
    objects.error("yes", extra={"k8s_ref": {"name": "west"}, "k8s_skip": True, "settings": None})
    (line,) = lines(stream)
    assert (line["msg"], line["k8s"]) == ("yes", {"name": "west"})
    assert "k8s_skip" not in line
    assert "settings" not in line


def test_configuring_twice_does_not_double_lines(stream: io.StringIO) -> None:
    for _ in range(2):
        configure_logging(LogLevel.INFO, LogFormat.TEXT, stream=stream)
    logging.getLogger("schedclass").info("once")
    assert stream.getvalue().count("once") == 1


def record(message: str, extra: dict[str, Any]) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": "x", "levelname": "INFO", "msg": message})
    made.__dict__.update(extra)
    return made


ANYTHING = st.recursive(
    st.none() | st.integers() | st.floats() | st.text() | st.binary() | st.builds(object),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=4,
)


@settings(deadline=None)
@given(st.text(st.characters()), st.dictionaries(st.text(min_size=1).map("x_".__add__), ANYTHING))
def test_any_record_becomes_one_line(message: str, extra: dict[str, Any]) -> None:
    as_json = JsonFormatter().format(record(message, extra))
    assert "\n" not in as_json
    assert json.loads(as_json)["msg"] == message
    as_text = TextFormatter().format(record(message, extra))
    assert len(as_text.splitlines()) == 1
