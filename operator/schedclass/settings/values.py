"""What values of settings may be, and how each is read from a string."""

import json
import re
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic_settings import NoDecode

_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DNS_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_HOST: Final = re.compile(r"[A-Za-z0-9.:*_-]+")
_NAME_PATTERN: Final = re.compile(r"[-a-z0-9*?\[\]!]+")


class LogFormat(StrEnum):
    """How log lines are written."""

    JSON = "json"
    TEXT = "text"


class LogLevel(StrEnum):
    """The least severe level that is logged."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


class CertificateMode(StrEnum):
    """Who makes the serving certificate."""

    SELF_SIGNED = "self-signed"
    CERT_MANAGER = "cert-manager"


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(item for item in (part.strip() for part in value.split(",")) if item)
    return value


def _upper(value: object) -> object:
    return value.strip().upper() if isinstance(value, str) else value


def _lower(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


def _blank_is_none(value: object) -> object:
    return None if isinstance(value, str) and not value.strip() else value


def _dns_label(value: str) -> str:
    if not _DNS_LABEL.fullmatch(value):
        raise ValueError(
            "use a DNS label: at most 63 of a-z, 0-9 and '-', alphanumeric at both ends"
        )
    return value


def _dns_name(value: str) -> str:
    if len(value) > 253 or not _DNS_NAME.fullmatch(value):
        raise ValueError(
            "use a DNS name: at most 253 of a-z, 0-9, '-' and '.', alphanumeric at both ends"
        )
    return value


def _lease_name(value: str) -> str:
    return _dns_name(value) if value else value


def _json_list(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        parsed = json.loads(value or "[]")
    except ValueError:
        parsed = None
    if not isinstance(parsed, list):
        raise ValueError("use a JSON list of extenders, as in KubeSchedulerConfiguration")  # noqa: TRY004
    return parsed


def _go_seconds(value: object) -> object:
    """`5s` or `500ms` as Go writes durations; other values as they are."""
    match = re.fullmatch(r"([0-9.]+)(ms|s)", value) if isinstance(value, str) else None
    return float(match[1]) / (1000 if match[2] == "ms" else 1) if match else value


def _hosts(value: tuple[str, ...]) -> tuple[str, ...]:
    for host in value:
        if not _HOST.fullmatch(host):
            raise ValueError(f'"{host}" is neither a host name nor an IP address')
    return value


def _patterns(value: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in value:
        if not _NAME_PATTERN.fullmatch(pattern):
            raise ValueError(
                f'"{pattern}" cannot match a namespace: use names with * and ?, as in kube-*'
            )
    return value


class ExtraExtender(BaseModel):
    """An extender that ours asks: fields and defaults of `Extender` in KubeSchedulerConfiguration.

    Attributes:
        url_prefix: where it listens.
        filter_verb: empty if it does not filter.
        prioritize_verb: empty if it does not score.
        weight: factor of its scores.
        node_cache_capable: whether names of nodes are enough for it.
        ignorable: whether pods are placed while it does not answer.
        http_timeout: seconds.
    """

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)

    url_prefix: Annotated[str, Field(pattern=r"^https?://[^\s]+$")]
    filter_verb: str = ""
    prioritize_verb: str = ""
    weight: Annotated[int, Field(ge=1, le=1000)] = 1
    node_cache_capable: bool = False
    ignorable: bool = False
    http_timeout: Annotated[float, BeforeValidator(_go_seconds), Field(gt=0, le=6)] = 5


Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Host = Annotated[str | None, BeforeValidator(_blank_is_none)]
DnsLabel = Annotated[str, AfterValidator(_dns_label)]
DnsName = Annotated[str, AfterValidator(_dns_name)]
LeaseName = Annotated[str, AfterValidator(_lease_name)]
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Hosts = Annotated[Names, AfterValidator(_hosts)]
Patterns = Annotated[Names, AfterValidator(_patterns)]
Extenders = Annotated[tuple[ExtraExtender, ...], NoDecode, BeforeValidator(_json_list)]
Level = Annotated[LogLevel, BeforeValidator(_upper)]
Format = Annotated[LogFormat, BeforeValidator(_lower)]
Mode = Annotated[CertificateMode, BeforeValidator(_lower)]
