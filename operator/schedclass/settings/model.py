"""All settings, their defaults and how they depend on one another."""

from typing import Annotated, Any, Final, Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from schedclass.domain import names
from schedclass.settings.values import (
    CertificateMode,
    DnsLabel,
    DnsName,
    Extenders,
    Format,
    Host,
    Hosts,
    LeaseName,
    Level,
    LogFormat,
    LogLevel,
    Mode,
    Names,
    Patterns,
    Port,
    Seconds,
)

PREFIX: Final = "SCHEDCLASS_"


class Settings(BaseSettings):
    """All settings of all roles.

    Each is read from `SCHEDCLASS_` plus its name in capitals, or from the option of its name.

    Attributes:
        namespace: the operator's own namespace.
        release: fullname of the Helm release; Secrets, Lease, Service and webhook configurations
            are named after it.
        webhook_host: address the admission server listens on; None for all.
        webhook_port: its port; 0 for any free one.
        probe_host: address of /healthz, /readyz and /metrics; None for all.
        probe_port: its port; 0 for any free one.
        revision: commit of the build.
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

    namespace: DnsLabel
    release: DnsLabel = "schedclass"

    webhook_host: Host = None
    webhook_port: Port = 9443
    probe_host: Host = None
    probe_port: Port = 8081

    revision: Annotated[str, Field(max_length=100)] = "unknown"
    log_level: Level = LogLevel.INFO
    log_format: Format = LogFormat.JSON

    excluded_namespaces: Patterns = names.SYSTEM_NAMESPACES
    exempt_daemon_sets: bool = False

    certificate_mode: Mode = CertificateMode.SELF_SIGNED
    certificate_hosts: Hosts = ()
    certificate_days: Annotated[int, Field(ge=1, le=3650)] = 365
    authority_days: Annotated[int, Field(ge=2, le=36_500)] = 3650
    certificate_check_seconds: Seconds = 10
    cluster_domain: DnsName = "cluster.local"

    controller_user: str = ""

    extender_host: str = "127.0.0.1"
    extender_port: Port = 8888
    default_label_selector_keys: Names = names.LINEAGE_LABELS
    extra_extenders: Extenders = ()
    log_decisions: bool = False
    nomination: bool = True
    nomination_least_nodes: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    nomination_least_candidates: Annotated[int, Field(ge=2, le=1_000_000)] = 100
    scheduler_lease: LeaseName = ""

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
