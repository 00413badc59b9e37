"""The nodes that match a node selector term, found by their labels instead of one by one.

A pod may have thousands of terms, and a cluster thousands of nodes: a look at each pair would hold
up everybody. `selectors.matches_node_selector_term` says the same of a single node.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from schedclass.domain.podfields import NodeSelectorRequirement, NodeSelectorTerm
from schedclass.domain.scheduling.topology import NodeIndex
from schedclass.domain.selectors import field_holds, holds, parses


def nodes_of_term(term: NodeSelectorTerm, nodes: NodeIndex) -> AbstractSet[str]:
    """All nodes that satisfy a term."""
    if term.is_empty or not all(map(parses, term.match_expressions)):
        return frozenset()
    found: AbstractSet[str] = nodes.names
    for requirement in term.match_fields:
        found = _of_field(requirement, found)
    for requirement in term.match_expressions:
        if not found:
            break
        found = found & _of_labels(requirement, nodes)
    return found


def _of_field(requirement: NodeSelectorRequirement, names: AbstractSet[str]) -> AbstractSet[str]:
    values = requirement.values
    if requirement.key == "metadata.name" and len(values) == 1:
        one = names & {values[0]}
        if requirement.operator == "In":
            return one
        return names - one if requirement.operator == "NotIn" else frozenset()
    return names if field_holds(requirement, "") else frozenset()


def _of_labels(requirement: NodeSelectorRequirement, nodes: NodeIndex) -> AbstractSet[str]:
    by_value, wanted = nodes.values(requirement.key), requirement.values
    match requirement.operator:
        case "In":
            return _together(by_value[value] for value in set(wanted) if value in by_value)
        case "NotIn":
            return nodes.names - _together(by_value[v] for v in set(wanted) if v in by_value)
        case "Exists":
            return _together(by_value.values())
        case "DoesNotExist":
            return nodes.names - _together(by_value.values())
        case operator:
            key = requirement.key
            return _together(
                names
                for value, names in by_value.items()
                if holds(key, operator, wanted, {key: value})
            )


def _together(sets: Iterable[AbstractSet[str]]) -> AbstractSet[str]:
    return set[str]().union(*sets)
