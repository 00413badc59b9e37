"""Class specs, one for each rule: what is refused and at which field, and what is accepted.

The unit tests hold validation against this table, the cluster tests hold the table against the
API server's own verdict on a pod.
"""

import pytest

from schedclass.domain.podfields import PREFERRED, REQUIRED
from tests.strategies import Json

SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
PREFERENCE = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}


def node_terms(*terms: Json) -> dict[str, Json]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def expression(key: str, operator: str, *values: Json) -> dict[str, Json]:
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def node_expression(key: str, operator: str, *values: Json) -> dict[str, Json]:
    return node_terms({"matchExpressions": [expression(key, operator, *values)]})


def node_field(key: str, operator: str, *values: Json) -> dict[str, Json]:
    return node_terms({"matchFields": [expression(key, operator, *values)]})


def apart(**term: Json) -> dict[str, Json]:
    return {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone"} | term]}}


def near(**term: Json) -> dict[str, Json]:
    return {"podAffinity": {REQUIRED: [{"topologyKey": "zone"} | term]}}


def spread(**constraint: Json) -> dict[str, Json]:
    return {"topologySpreadConstraints": [SPREAD | constraint]}


REQUIRED_TERMS = f"spec.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
APART = f"spec.podAntiAffinity.{REQUIRED}[0]"
SPREAD_0 = "spec.topologySpreadConstraints[0]"

REFUSED = [
    pytest.param({"nodeSelector": {"a b": "x"}}, 'spec.nodeSelector["a b"]', id="key"),
    pytest.param({"nodeSelector": {"a": "-x"}}, 'spec.nodeSelector["a"]', id="value"),
    pytest.param({"nodeSelector": {"a": 1}}, 'spec.nodeSelector["a"]', id="number for string"),
    pytest.param({"nodeSelector": ["a"]}, "spec.nodeSelector", id="list for map"),
    pytest.param("west", "spec", id="spec is a string"),
    pytest.param(node_terms(), REQUIRED_TERMS, id="no node selector terms"),
    pytest.param(
        {"nodeAffinity": {REQUIRED: {}}}, REQUIRED_TERMS, id="node selector without terms field"
    ),
    pytest.param(
        node_expression("zone", "In"),
        f"{REQUIRED_TERMS}[0].matchExpressions[0].values",
        id="In without values",
    ),
    pytest.param(
        node_expression("zone", "Exists", "a"),
        f"{REQUIRED_TERMS}[0].matchExpressions[0].values",
        id="Exists with values",
    ),
    pytest.param(
        node_expression("cpus", "Gt", "1", "2"),
        f"{REQUIRED_TERMS}[0].matchExpressions[0].values",
        id="Gt with two values",
    ),
    pytest.param(
        node_expression("zone", "in", "a"),
        f"{REQUIRED_TERMS}[0].matchExpressions[0].operator",
        id="unknown operator",
    ),
    pytest.param(
        node_expression("zone", "In", "a", "-bad-"),
        f"{REQUIRED_TERMS}[0].matchExpressions[0].values[1]",
        id="value no label can have",
    ),
    pytest.param(
        node_field("metadata.labels", "In", "a"),
        f"{REQUIRED_TERMS}[0].matchFields[0].key",
        id="another field than the name",
    ),
    pytest.param(
        node_field("metadata.name", "In", "a", "b"),
        f"{REQUIRED_TERMS}[0].matchFields[0].values",
        id="two names",
    ),
    pytest.param(
        node_field("metadata.name", "Exists"),
        f"{REQUIRED_TERMS}[0].matchFields[0].operator",
        id="Exists on the name",
    ),
    pytest.param(
        node_field("metadata.name", "In", "Node_1"),
        f"{REQUIRED_TERMS}[0].matchFields[0].values[0]",
        id="no node can have the name",
    ),
    *(
        pytest.param(
            {"nodeAffinity": {PREFERRED: [{"weight": weight, "preference": PREFERENCE}]}},
            f"spec.nodeAffinity.{PREFERRED}[0].weight",
            id=f"weight {weight}",
        )
        for weight in (0, 101, -1, None, "5", 2**31)
    ),
    pytest.param(
        {"podAffinity": {PREFERRED: [{"weight": 1}]}},
        f"spec.podAffinity.{PREFERRED}[0].podAffinityTerm.topologyKey",
        id="preference without term",
    ),
    pytest.param(apart(topologyKey=""), f"{APART}.topologyKey", id="no topology key"),
    pytest.param(apart(topologyKey="a b"), f"{APART}.topologyKey", id="bad topology key"),
    pytest.param(apart(namespaces=["A"]), f"{APART}.namespaces[0]", id="bad namespace"),
    pytest.param(apart(namespaces=["a.b"]), f"{APART}.namespaces[0]", id="namespace with a dot"),
    pytest.param(
        apart(namespaceSelector={"matchLabels": {"a/b/c": ""}}),
        f'{APART}.namespaceSelector.matchLabels["a/b/c"]',
        id="bad key in namespaceSelector",
    ),
    pytest.param(
        apart(labelSelector={"matchExpressions": [expression("app", "Gt", "1")]}),
        f"{APART}.labelSelector.matchExpressions[0].operator",
        id="Gt in a label selector",
    ),
    pytest.param(
        apart(labelSelector={}, matchLabelKeys=["a", "b"], mismatchLabelKeys=["b"]),
        f"{APART}.matchLabelKeys[1]",
        id="key to match and to mismatch",
    ),
    pytest.param(apart(matchLabelKeys=["-"]), f"{APART}.matchLabelKeys[0]", id="bad match key"),
    pytest.param(
        apart(
            labelSelector={
                "matchLabels": {"a": "x"},
                "matchExpressions": [expression("a", "Exists")],
            },
            matchLabelKeys=["a"],
        ),
        f"{APART}.matchLabelKeys[0]",
        id="match key twice in the selector",
    ),
    pytest.param(spread(maxSkew=0), f"{SPREAD_0}.maxSkew", id="maxSkew 0"),
    pytest.param(spread(maxSkew=1.0), f"{SPREAD_0}.maxSkew", id="maxSkew is a fraction"),
    pytest.param(spread(maxSkew=True), f"{SPREAD_0}.maxSkew", id="maxSkew is a boolean"),
    pytest.param(spread(topologyKey=""), f"{SPREAD_0}.topologyKey", id="spread without key"),
    pytest.param(spread(minDomains=0), f"{SPREAD_0}.minDomains", id="minDomains 0"),
    pytest.param(
        spread(minDomains=2, whenUnsatisfiable="ScheduleAnyway"),
        f"{SPREAD_0}.minDomains",
        id="minDomains with ScheduleAnyway",
    ),
    pytest.param(
        spread(whenUnsatisfiable="Never"), f"{SPREAD_0}.whenUnsatisfiable", id="unknown action"
    ),
    pytest.param(
        spread(nodeTaintsPolicy="honor"), f"{SPREAD_0}.nodeTaintsPolicy", id="unknown policy"
    ),
    pytest.param(
        {"topologySpreadConstraints": [SPREAD, SPREAD | {"maxSkew": 2}]},
        "spec.topologySpreadConstraints[1]",
        id="same pair twice",
    ),
]


ACCEPTED = [
    pytest.param(None, id="no spec"),
    pytest.param({}, id="empty spec"),
    pytest.param({"nodeSelector": None, "podAffinity": None}, id="null is absent"),
    pytest.param({"nodeSelector": {"example.com/pool": None}}, id="null value is empty"),
    pytest.param(node_terms({}), id="empty term"),
    pytest.param(node_terms(None), id="null term"),
    pytest.param(node_expression("cpus", "Gt", "x"), id="Gt with a word"),
    pytest.param(
        {
            "nodeAffinity": {
                PREFERRED: [
                    {
                        "weight": 100,
                        "preference": {"matchExpressions": [expression("a", "In", "-bad-")]},
                    }
                ]
            }
        },
        id="preference with a value no label can have",
    ),
    pytest.param({"nodeAffinity": {PREFERRED: [{"weight": 1}]}}, id="empty preference"),
    pytest.param(apart(), id="no selector"),
    pytest.param(apart(matchLabelKeys=["a"]), id="keys to match without a selector"),
    pytest.param(apart(mismatchLabelKeys=["a"]), id="keys to mismatch without a selector"),
    pytest.param(spread(matchLabelKeys=["a"]), id="spread keys without a selector"),
    pytest.param(
        apart(labelSelector={"matchLabels": {"a": "x"}}, matchLabelKeys=["a"]),
        id="match key once in the selector",
    ),
    pytest.param(spread(topologyKey="not a label key"), id="spread over any key"),
    pytest.param(
        {
            "topologySpreadConstraints": [
                SPREAD | {"minDomains": 2},
                SPREAD | {"whenUnsatisfiable": "ScheduleAnyway"},
            ]
        },
        id="same key with another action",
    ),
    pytest.param({"affinity": {}}, id="unknown field"),
]
