"""Log lines on standard output: JSON objects for collectors, or text for people."""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, Final, TextIO

import orjson

from schedclass.domain.text import visible
from schedclass.settings import LogFormat, LogLevel

_OF_THE_RECORD: Final = frozenset(
    (*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName")
)
_NOT_SHOWN: Final = frozenset({"k8s_skip", "settings"})
_RENAMED: Final = {"k8s_ref": "k8s"}
"""What Kopf attaches to its records about an object."""

_LOUD: Final = ("kopf", "aiohttp", "asyncio", "kubernetes")
"""Their INFO lines come per request or per handler call."""

_ENGINE: Final = "kopf.objects"
"""Kopf's own report on what a handler raised, denials included, at ERROR."""


class JsonFormatter(logging.Formatter):
    """One JSON object per line: `ts`, `level`, `logger`, `msg`, the extra fields, `traceback`."""

    def format(self, record: logging.LogRecord) -> str:
        """A line without its end; never raises, whatever the extra fields hold."""
        line: dict[str, Any] = {
            "ts": _timestamp(record),
            "level": record.levelname,
            "logger": record.name,
            "msg": record.getMessage(),
            **_extra(record),
        }
        if text := _traceback(record):
            line["traceback"] = text
        try:
            return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
        except (TypeError, ValueError):  # lone surrogates, integers beyond 64 bits
            return json.dumps(line, default=str, skipkeys=True)


class TextFormatter(logging.Formatter):
    """`time LEVEL logger: message key=value ...`, on one line apart from tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        """A line without its end; line breaks in the message cannot forge another line."""
        head = f"{_timestamp(record)} {record.levelname:<7} {record.name}: "
        fields = "".join(f" {key}={value}" for key, value in _extra(record).items())
        line = head + visible(record.getMessage() + fields)
        text = _traceback(record)
        return f"{line}\n{text}" if text else line


def configure_logging(
    level: LogLevel,
    log_format: LogFormat,
    *,
    engine_reports: bool = True,
    stream: TextIO | None = None,
) -> None:
    """Send every log record of the process to one stream, in one format.

    Args:
        level: the least severe level of our own loggers; libraries log from WARNING on.
        log_format: JSON or text.
        engine_reports: whether Kopf's report on a failed handler is shown. The admission server
            logs denials and failures itself, with the request's uid, so it wants them off.
        stream: standard output by default.
    """
    handler = logging.StreamHandler(stream or sys.stdout)
    handler.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else TextFormatter())
    root = logging.getLogger()
    for present in tuple(root.handlers):
        root.removeHandler(present)
    root.addHandler(handler)
    root.setLevel(level.value)
    for name in _LOUD:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.getLogger(_ENGINE).setLevel(logging.NOTSET if engine_reports else logging.CRITICAL)
    logging.captureWarnings(True)


def _timestamp(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {
        _RENAMED.get(key, key): value
        for key, value in record.__dict__.items()
        if key not in _OF_THE_RECORD and key not in _NOT_SHOWN
    }


def _traceback(record: logging.LogRecord) -> str:
    if record.exc_info and record.exc_info[0] is not None:
        return "".join(traceback.format_exception(*record.exc_info)).rstrip()
    return record.exc_text or ""
