"""Validation of a class spec: legal exactly when a pod with these constraints would be."""

from typing import Any

from schedclass.domain.findings import Finding
from schedclass.domain.podfields import ClassSpec
from schedclass.domain.validation.isolation import warn_self_assignable
from schedclass.domain.validation.labels import check_labels
from schedclass.domain.validation.node_selection import check_node_affinity
from schedclass.domain.validation.pod_affinity import check_pod_affinity
from schedclass.domain.validation.report import Report
from schedclass.domain.validation.shape import decode_model
from schedclass.domain.validation.topology_spread import check_topology_spread

__all__ = ["decode_spec"]


def decode_spec(
    spec: Any,  # noqa: ANN401 - JSON from anybody
) -> tuple[ClassSpec | None, tuple[Finding, ...]]:
    """Judge a raw class spec and give its model.

    The rule: an error for exactly what the API server (1.36) would refuse in a pod without labels
    that carries the constraints, except that a `labelSelector` may be left out beside
    `matchLabelKeys` and `mismatchLabelKeys`, because it is filled per application.

    Args:
        spec: JSON-like value of the field `spec`; None or `{}` is a class without constraints.

    Returns:
        The model, None if there is any error; and all findings at once, errors (reason
        InvalidSpec) before warnings, each with its path. Never raises, whatever the input is.
    """
    report = Report()
    decoded = decode_model(ClassSpec, spec, "spec", report)
    check_labels(decoded.node_selector, "spec.nodeSelector", report)
    if decoded.node_affinity is not None:
        check_node_affinity(decoded.node_affinity, "spec.nodeAffinity", report)
    if decoded.pod_affinity is not None:
        check_pod_affinity(decoded.pod_affinity, "spec.podAffinity", report)
    if decoded.pod_anti_affinity is not None:
        check_pod_affinity(decoded.pod_anti_affinity, "spec.podAntiAffinity", report)
    check_topology_spread(
        decoded.topology_spread_constraints, "spec.topologySpreadConstraints", report
    )
    if report.has_errors:
        return None, report.findings()
    warn_self_assignable(decoded, "spec", report)
    return decoded, report.findings()
