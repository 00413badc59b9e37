"""Class specs that the pod API would refuse, each with what the API server says about it."""

from typing import Any

Spec = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def node_term(**term: Any) -> Spec:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}


def node_expression(**requirement: Any) -> Spec:
    return node_term(matchExpressions=[requirement])


def pod_term(**term: Any) -> Spec:
    return {"podAffinity": {REQUIRED: [{"topologyKey": "zone", **term}]}}


def spread(*constraints: dict[str, Any]) -> Spec:
    usual = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**usual, **c} for c in constraints]}


WRONG: list[tuple[Spec, str]] = [
    ({"nodeSelector": {"a": "not ok"}}, "spec.nodeSelector.a in body should match"),
    (
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}},
        "nodeSelectorTerms in body should have at least 1",
    ),
    (
        node_expression(key="a", operator="In"),
        "[0].values: Required value: operators In and NotIn need at least one value",
    ),
    (
        node_expression(key="a", operator="Exists", values=["b"]),
        "values: Forbidden: operators Exists and DoesNotExist take no values",
    ),
    (
        node_expression(key="a", operator="Gt", values=["1", "2"]),
        "operators Gt and Lt need exactly one value, an integer",
    ),
    (node_expression(key="a b", operator="Exists"), "matchExpressions[0].key in body should match"),
    (node_expression(key="a", operator="Like"), 'Unsupported value: "Like"'),
    (node_expression(key="a", operator="In", values=["-"]), "values[0] in body should match"),
    (
        node_term(matchFields=[{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]),
        "matchFields need exactly one value, a node name",
    ),
    (
        node_term(matchFields=[{"key": "metadata.uid", "operator": "In", "values": ["a"]}]),
        'supported values: "metadata.name"',
    ),
    (
        {"nodeAffinity": {PREFERRED: [{"weight": 0, "preference": {}}]}},
        "weight in body should be greater than or equal to 1",
    ),
    (
        {"nodeAffinity": {PREFERRED: [{"weight": 101, "preference": {}}]}},
        "weight in body should be less than or equal to 100",
    ),
    (pod_term(topologyKey=""), "topologyKey in body should match"),
    (pod_term(namespaces=["A"]), "namespaces[0] in body should match"),
    (
        pod_term(matchLabelKeys=["a"], mismatchLabelKeys=["a"]),
        "a label key cannot be in both matchLabelKeys and mismatchLabelKeys",
    ),
    (
        pod_term(labelSelector={"matchLabels": {"a": "-"}}),
        "labelSelector.matchLabels.a in body should match",
    ),
    (
        pod_term(
            labelSelector={"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}
        ),
        'Unsupported value: "Gt"',
    ),
    (
        pod_term(
            namespaceSelector={
                "matchExpressions": [{"key": "a", "operator": "NotIn", "values": []}]
            }
        ),
        "namespaceSelector.matchExpressions[0].values: Required value",
    ),
    ({"podAntiAffinity": {PREFERRED: [{"weight": 1}]}}, "podAffinityTerm: Required value"),
    (spread({"maxSkew": 0}), "maxSkew in body should be greater than or equal to 1"),
    (spread({"maxSkew": 2**31}), "maxSkew"),
    (spread({"topologyKey": ""}), "topologyKey in body should be at least 1 chars long"),
    (spread({"whenUnsatisfiable": "Never"}), 'supported values: "DoNotSchedule", "ScheduleAnyway"'),
    (spread({"minDomains": 0}), "minDomains in body should be greater than or equal to 1"),
    (
        spread({"minDomains": 1, "whenUnsatisfiable": "ScheduleAnyway"}),
        "minDomains needs whenUnsatisfiable: DoNotSchedule",
    ),
    (
        spread({}, {"maxSkew": 2}),
        "each pair of topologyKey and whenUnsatisfiable may occur only once",
    ),
    (spread({"nodeTaintsPolicy": "honor"}), 'supported values: "Honor", "Ignore"'),
    ({"nodeSelector": ["a"]}, "spec.nodeSelector"),
]
