"""Nodes found by their labels and taints are those that one would find by looking at each."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedclass.domain.nodes import Node, Taint
from schedclass.domain.scheduling import parse_pod
from schedclass.domain.scheduling.topology import Conditions, DomainsSpec, Topology

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
KEYS = st.sampled_from(["zone", "disk", "no key!"])
VALUES = st.sampled_from(["a", "b", "1", "07", "-1", "not a value!"])
OPERATORS = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near"]
NAMES = st.sampled_from(["n1", "n2", "n3", "n4"])


def requirements(keys: st.SearchStrategy[str], values: st.SearchStrategy[str]) -> Any:
    return st.fixed_dictionaries(
        {
            "key": keys,
            "operator": st.sampled_from(OPERATORS),
            "values": st.lists(values, max_size=3),
        }
    )


TERMS = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(requirements(KEYS, VALUES), max_size=3),
        "matchFields": st.lists(
            requirements(st.sampled_from(["metadata.name", "metadata.uid"]), NAMES), max_size=2
        ),
    },
)
TAINTS = st.builds(
    Taint, KEYS, VALUES, st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
)
NODES = st.builds(
    Node,
    NAMES,
    labels=st.dictionaries(KEYS, VALUES),
    taints=st.lists(TAINTS, max_size=2).map(tuple),
)
PODS = st.fixed_dictionaries(
    {},
    optional={
        "nodeSelector": st.dictionaries(KEYS, VALUES, max_size=2),
        "tolerations": st.lists(
            st.fixed_dictionaries({}, optional={"key": KEYS, "value": VALUES, "effect": VALUES}),
            max_size=2,
        ),
        "affinity": st.fixed_dictionaries(
            {
                "nodeAffinity": st.fixed_dictionaries(
                    {
                        REQUIRED: st.fixed_dictionaries(
                            {"nodeSelectorTerms": st.lists(TERMS, max_size=3)}
                        ),
                        PREFERRED: st.lists(
                            st.fixed_dictionaries({"weight": st.just(1), "preference": TERMS}),
                            max_size=2,
                        ),
                    }
                )
            }
        ),
    },
)


def conditions_of(spec: dict[str, Any]) -> list[Conditions]:
    pod = parse_pod({"metadata": {"name": "p"}, "spec": spec})
    restriction = (pod.own.node,) if pod.own.node is not None else ()
    wishes: list[Conditions] = [(wish,) for _, wish in pod.own.node_preferences]
    return [(pod.tolerance,), restriction, (pod.tolerance, *restriction), *wishes]


@given(PODS, st.lists(NODES, max_size=12), st.lists(NAMES, max_size=2))
def test_a_set_has_the_nodes_that_satisfy_each_condition(
    spec: dict[str, Any], nodes: list[Node], removed: list[str]
) -> None:
    topology = Topology()
    for node in nodes:  # some replace others
        topology.put(node)
    for name in removed:
        topology.remove(name)
    for conditions in conditions_of(spec):
        expected = {
            name
            for name, node in topology.nodes.items()
            if all(condition.allows(node) for condition in conditions)
        }
        assert topology.satisfying(conditions) == expected
        assert topology.acquire_set(conditions).names == expected
        domains = topology.acquire_domains(DomainsSpec("zone", conditions=conditions))
        zones = {name: topology.nodes[name].labels.get("zone") for name in expected}
        assert domains.of_node == {name: zone for name, zone in zones.items() if zone is not None}


@pytest.mark.parametrize("operator", ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
def test_thousands_of_terms_do_not_make_a_look_at_each_node(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod may have as many as fit into a megabyte; it must not hold up all others."""
    values = {"In": ["x"], "NotIn": ["x"], "Gt": ["5"], "Lt": ["5"]}.get(operator, [])
    terms = [
        {"matchExpressions": [{"key": f"k{i}", "operator": operator, "values": values}]}
        for i in range(2000)
    ]
    required = {REQUIRED: {"nodeSelectorTerms": terms}}
    (conditions,) = conditions_of({"affinity": {"nodeAffinity": required}})[1:2]
    topology = Topology()
    for i in range(300):
        topology.put(Node(f"node-{i}", labels={f"k{i}": "x"}))

    def looked_at(*_: object) -> bool:
        raise AssertionError("a node was looked at by itself")

    monkeypatch.setattr(type(conditions[0]), "allows", looked_at)
    expected = {"In": 300, "Exists": 300, "NotIn": 300, "DoesNotExist": 300}.get(operator, 0)
    assert len(topology.acquire_set(conditions).names) == expected
