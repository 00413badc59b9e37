"""Settings of a role process: environment variables `SCHEDCLASS_*` in, one frozen model out.

A malformed value is answered with one sentence that names the variable, the value and the way
out; so is a variable that no setting has, because a misspelt setting would otherwise silently
mean its default.
"""

import difflib
import json
import os
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from schedclass.domain import names

PREFIX: Final = "SCHEDCLASS_"

_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DNS_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_HOST: Final = re.compile(r"[A-Za-z0-9.:*_-]+")
_NAME_PATTERN: Final = re.compile(r"[-a-z0-9*?\[\]!]+")
_SERVICE_LINK: Final = re.compile(
    r"(?:.*_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
"""What the kubelet adds to each container for the Services of its namespace. A release named
`schedclass` has Services whose variables begin with our prefix."""


class SettingsError(Exception):
    """The environment cannot be used.

    Attributes:
        problems: one sentence per malformed or unknown variable.
    """

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


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
    http_timeout: Annotated[float, BeforeValidator(_go_seconds), Field(gt=0, le=8)] = 5


Port = Annotated[int, Field(ge=0, le=65535)]
Host = Annotated[str | None, BeforeValidator(_blank_is_none)]
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]


class Settings(BaseSettings):
    """All settings of all roles; each is read from `SCHEDCLASS_` plus its name in capitals.

    Attributes:
        namespace: the operator's own namespace.
        release: fullname of the Helm release; Secrets, Lease, Service and webhook configurations
            are named after it.
        webhook_host: address the admission server listens on; None for all.
        webhook_port: its port; 0 for any free one.
        probe_host: address of /healthz, /readyz and /metrics; None for all.
        probe_port: its port; 0 for any free one.
        log_level: the least severe level that is logged.
        log_format: JSON lines, or text for people.
        excluded_namespaces: patterns (`*`, `?`) of namespaces that are never labelled or pinned;
            see `all_excluded_namespaces`.
        exempt_daemon_sets: let pods of the DaemonSet controller pass unpinned.
        certificate_mode: the operator makes its certificate itself, or cert-manager does.
        certificate_hosts: names and IP addresses in the certificate besides the Service's.
        certificate_days: lifetime of the serving certificate, renewed at two thirds of it.
        authority_days: lifetime of the CA, renewed at two thirds of it.
        certificate_check_seconds: pause between two looks at Secrets and configurations.
        cluster_domain: DNS domain of the cluster.
        controller_user: user name of the controller, exempt from admission of namespaces.
        extender_host: address the extender listens on; kube-scheduler runs in the same pod.
        extender_port: its port; 0 for any free one.
        default_label_selector_keys: pod labels from which a missing labelSelector of a class is
            filled, if the pod has all of them.
        extra_extenders: further extenders, asked by ours; JSON.
        log_decisions: write a log line for each answer of the extender, see
            `scheduler/decisionlog.py`.
        nomination: name nodes for pods while a queue builds up.
        nomination_least_nodes: with fewer nodes that is never done beforehand.
        nomination_least_candidates: where kube-scheduler found fewer nodes that fit, that is not
            done in the answer of filter either.
        scheduler_lease: name of the Lease of cozystack-scheduler in `namespace`; empty where
            another installation runs it, so that nothing is known about it.
        drain_seconds: how long the admission server goes on serving after it was told to stop.
        max_body_bytes: largest admission review that is read.
        live_get_seconds: limit of the one GET for a namespace not yet seen.
        resync_seconds: pause between two complete lists.
        sweep_seconds: pause between two searches for pods that another scheduler places.
        stale_seconds: longest silence of a watch before the replica reports unready.
        patch_concurrency: how many namespaces are patched at the same time.
        lease_duration_seconds: how long others wait before they take over the Lease.
        lease_deadline_seconds: how long the leader tries to renew before it gives up.
        lease_retry_seconds: pause between two attempts.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    namespace: Annotated[str, AfterValidator(_dns_label)]
    release: Annotated[str, AfterValidator(_dns_label)] = "schedclass"

    webhook_host: Host = None
    webhook_port: Port = 9443
    probe_host: Host = None
    probe_port: Port = 8081

    log_level: Annotated[LogLevel, BeforeValidator(_upper)] = LogLevel.INFO
    log_format: Annotated[LogFormat, BeforeValidator(_lower)] = LogFormat.JSON

    excluded_namespaces: Annotated[Names, AfterValidator(_patterns)] = names.SYSTEM_NAMESPACES
    exempt_daemon_sets: bool = False

    certificate_mode: Annotated[CertificateMode, BeforeValidator(_lower)] = (
        CertificateMode.SELF_SIGNED
    )
    certificate_hosts: Annotated[Names, AfterValidator(_hosts)] = ()
    certificate_days: Annotated[int, Field(ge=1, le=3650)] = 365
    authority_days: Annotated[int, Field(ge=2, le=36_500)] = 3650
    certificate_check_seconds: Seconds = 10
    cluster_domain: Annotated[str, AfterValidator(_dns_name)] = "cluster.local"

    controller_user: str = ""

    extender_host: str = "127.0.0.1"
    extender_port: Port = 8888
    default_label_selector_keys: Names = names.LINEAGE_LABELS
    extra_extenders: Annotated[
        tuple[ExtraExtender, ...], NoDecode, BeforeValidator(_json_list)
    ] = ()
    log_decisions: bool = False
    nomination: bool = True
    nomination_least_nodes: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    nomination_least_candidates: Annotated[int, Field(ge=2, le=1_000_000)] = 100
    scheduler_lease: Annotated[str, AfterValidator(_lease_name)] = ""

    drain_seconds: Annotated[float, Field(ge=0, le=600)] = 5
    max_body_bytes: Annotated[int, Field(ge=1 << 10, le=1 << 28)] = 8 << 20
    live_get_seconds: Annotated[float, Field(gt=0, le=30)] = 1

    resync_seconds: Seconds = 300
    sweep_seconds: Seconds = 300
    stale_seconds: Seconds = 90
    patch_concurrency: Annotated[int, Field(ge=1, le=256)] = 16

    lease_duration_seconds: Annotated[int, Field(ge=1, le=3600)] = 15
    lease_deadline_seconds: Seconds = 10
    lease_retry_seconds: Seconds = 2

    @model_validator(mode="before")
    @classmethod
    def _name_the_controller(cls, data: Any) -> Any:  # noqa: ANN401 - pydantic's own signature
        if isinstance(data, dict) and not str(data.get("controller_user") or "").strip():
            release = data.get("release") or cls.model_fields["release"].default
            user = f"system:serviceaccount:{data.get('namespace')}:{release}-controller"
            return {**data, "controller_user": user}
        return data

    @model_validator(mode="after")
    def _lease_times_in_order(self) -> Self:
        """Retry < deadline < duration, or a leader outlives its Lease (client-go's own rule)."""
        if not self.lease_deadline_seconds < self.lease_duration_seconds:
            raise ValueError(
                f"{PREFIX}LEASE_DEADLINE_SECONDS={self.lease_deadline_seconds:g} must be below "
                f"{PREFIX}LEASE_DURATION_SECONDS={self.lease_duration_seconds}: "
                "lower the first or raise the second"
            )
        if not self.lease_retry_seconds < self.lease_deadline_seconds:
            raise ValueError(
                f"{PREFIX}LEASE_RETRY_SECONDS={self.lease_retry_seconds:g} must be below "
                f"{PREFIX}LEASE_DEADLINE_SECONDS={self.lease_deadline_seconds:g}: "
                "lower the first or raise the second"
            )
        if not self.certificate_days < self.authority_days:
            raise ValueError(
                f"{PREFIX}CERTIFICATE_DAYS={self.certificate_days} must be below "
                f"{PREFIX}AUTHORITY_DAYS={self.authority_days}: "
                "a certificate cannot outlive its CA"
            )
        return self

    @property
    def all_excluded_namespaces(self) -> tuple[str, ...]:
        """The configured patterns and the operator's own namespace."""
        return (*self.excluded_namespaces, self.namespace)

    @property
    def service(self) -> str:
        """Name of the Service of the admission server, and of its Deployment."""
        return f"{self.release}-webhook"

    @property
    def serving_secret(self) -> str:
        """Name of the Secret with the serving certificate."""
        return f"{self.release}-webhook-tls"

    @property
    def authority_secret(self) -> str:
        """Name of the Secret with the CA and its key."""
        return f"{self.release}-webhook-ca"

    @property
    def nudge(self) -> str:
        """Name of the CSIStorageCapacity whose changes make kube-scheduler try pods anew."""
        return f"{self.release}-scheduler"

    @property
    def lease(self) -> str:
        """Name of the controller's Lease."""
        return f"{self.release}-controller"


def load_settings() -> Settings:
    """Read the settings from the environment of this process.

    Raises:
        SettingsError: for every malformed, missing or unknown `SCHEDCLASS_` variable at once.
    """
    problems = _unknown_variables(os.environ)
    nothing: dict[str, Any] = {}
    try:
        settings = Settings(**nothing)
    except ValidationError as error:
        problems += tuple(_sentence(details) for details in error.errors())
        raise SettingsError(problems) from None
    if problems:
        raise SettingsError(problems)
    return settings


def _unknown_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    known = [PREFIX + name.upper() for name in Settings.model_fields]
    return tuple(
        _unknown(variable, known)
        for variable in sorted(environ)
        if variable.upper().startswith(PREFIX)
        and variable.upper() not in known
        and not _is_service_link(variable, environ[variable])
    )


def _is_service_link(variable: str, value: str) -> bool:
    name = variable.removeprefix(PREFIX)
    is_url = name.endswith("PORT") and re.match(r"(tcp|udp|sctp)://", value) is not None
    return is_url or _SERVICE_LINK.fullmatch(name) is not None


def _unknown(variable: str, known: list[str]) -> str:
    near = difflib.get_close_matches(variable.upper(), known, n=1, cutoff=0.75)
    way_out = f"did you mean {near[0]}?" if near else "remove it."
    return f"{_printable(variable)} is not a setting: {way_out}"


def _sentence(details: ErrorDetails) -> str:
    if not details["loc"]:  # a rule about several settings names them itself
        return f"{details['msg'].removeprefix('Value error, ')}."
    variable = PREFIX + str(details["loc"][0]).upper()
    if details["type"] == "missing":
        return f"{variable} is not set: give it a value."
    shown = _printable(os.environ.get(variable, str(details["input"])))
    if re.match(r"(tcp|udp|sctp)://", shown):
        return (
            f'{variable}="{shown}" was set by Kubernetes for a Service of that name: set it in '
            "the pod's env or set enableServiceLinks to false."
        )
    way_out = details["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if way_out != details["msg"] and not details["msg"].startswith("Value error"):
        way_out = f"it should be {way_out}"
    return f'{variable}="{shown}" cannot be used: {_printable(way_out)}.'


def _printable(value: str) -> str:
    """One line of at most 200 characters."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in value[:200])
