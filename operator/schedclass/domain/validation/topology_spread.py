"""Rules of topology spread constraints."""

from schedclass.domain.podfields import TopologySpreadConstraint
from schedclass.domain.validation.labels import check_label_selector
from schedclass.domain.validation.pod_affinity import check_match_label_keys
from schedclass.domain.validation.report import Report, item, quoted

DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"


def check_topology_spread(
    constraints: tuple[TopologySpreadConstraint, ...], path: str, report: Report
) -> None:
    """Report what the API server refuses in a list of topology spread constraints.

    Other than in a pod, `matchLabelKeys` may stand without a `labelSelector`.
    """
    first: dict[tuple[str, str], int] = {}
    for i, constraint in enumerate(constraints):
        constraint_path = item(path, i)
        _check_constraint(constraint, constraint_path, report)
        if report.is_mistyped(
            f"{constraint_path}.topologyKey", f"{constraint_path}.whenUnsatisfiable"
        ):
            continue
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        if pair in first and constraint.topology_key:
            report.error(
                constraint_path,
                f"repeats topologyKey {quoted(pair[0])} with whenUnsatisfiable {quoted(pair[1])} "
                f"of {item(path, first[pair])}; keep one of the two",
            )
        first.setdefault(pair, i)


def _check_constraint(constraint: TopologySpreadConstraint, path: str, report: Report) -> None:
    if constraint.max_skew < 1:
        report.error(f"{path}.maxSkew", f"must be 1 or more, not {constraint.max_skew}")
    # The API server asks no more of this key than to be there.
    if not constraint.topology_key:
        report.error(
            f"{path}.topologyKey", "is missing; name a node label, e.g. topology.kubernetes.io/zone"
        )
    _check_action(constraint, path, report)
    for name, policy in (
        ("nodeAffinityPolicy", constraint.node_affinity_policy),
        ("nodeTaintsPolicy", constraint.node_taints_policy),
    ):
        if policy not in (None, "Honor", "Ignore"):
            report.error(f"{path}.{name}", f"must be Honor or Ignore, not {quoted(policy)}")
    check_match_label_keys(constraint.match_label_keys, constraint.label_selector, path, report)
    check_label_selector(constraint.label_selector, f"{path}.labelSelector", report)


def _check_action(constraint: TopologySpreadConstraint, path: str, report: Report) -> None:
    action, min_domains = constraint.when_unsatisfiable, constraint.min_domains
    if action not in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY):
        report.error(
            f"{path}.whenUnsatisfiable",
            f"must be {DO_NOT_SCHEDULE} or {SCHEDULE_ANYWAY}, not {quoted(action)}",
        )
    if min_domains is None:
        return
    if min_domains < 1:
        report.error(f"{path}.minDomains", f"must be 1 or more, not {min_domains}")
    if action == SCHEDULE_ANYWAY:
        report.error(f"{path}.minDomains", f"only goes with whenUnsatisfiable: {DO_NOT_SCHEDULE}")
