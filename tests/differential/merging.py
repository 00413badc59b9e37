"""Writes a class into the spec of a pod, so that the stock scheduler judges both together.

Written apart from the code under test, on plain JSON, as a person would do it by hand.
"""

import copy
from itertools import product
from typing import Any

Json = Any

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def merged(pod: Json, class_spec: Json | None, fill_keys: tuple[str, ...]) -> Json:
    """The pod with the constraints of a class (None for no class) besides its own."""
    pod = copy.deepcopy(pod)
    if class_spec is None:
        return pod
    labels = pod["metadata"].get("labels", {})
    added = filled(class_spec, labels, fill_keys)
    spec = pod["spec"]
    affinity = spec.setdefault("affinity", {})
    _merge_node_affinity(affinity, added)
    for kind in ("podAffinity", "podAntiAffinity"):
        mine, theirs = affinity.get(kind, {}), added.get(kind, {})
        affinity[kind] = {
            part: [*mine.get(part, []), *theirs.get(part, [])] for part in (REQUIRED, PREFERRED)
        }
    spec["topologySpreadConstraints"] = [
        *spec.get("topologySpreadConstraints", []),
        *added.get("topologySpreadConstraints", []),
    ]
    return pod


def filled(class_spec: Json, labels: dict[str, str], keys: tuple[str, ...]) -> Json:
    """The class with missing label selectors filled for a pod that has all the keys."""
    spec = copy.deepcopy(class_spec)
    if not all(key in labels for key in keys):
        return spec
    selector = {"matchLabels": {key: labels[key] for key in keys}}
    terms = list(spec.get("topologySpreadConstraints", []))
    for kind in ("podAffinity", "podAntiAffinity"):
        terms += spec.get(kind, {}).get(REQUIRED, [])
        terms += [wish["podAffinityTerm"] for wish in spec.get(kind, {}).get(PREFERRED, [])]
    for term in terms:
        term.setdefault("labelSelector", copy.deepcopy(selector))
    return spec


def _merge_node_affinity(affinity: Json, added: Json) -> None:
    mine, theirs = affinity.get("nodeAffinity", {}), added.get("nodeAffinity", {})
    pairs = [
        {"key": key, "operator": "In", "values": [value]}
        for key, value in added.get("nodeSelector", {}).items()
    ]
    alternatives = [
        part[REQUIRED]["nodeSelectorTerms"] for part in (mine, theirs) if part.get(REQUIRED)
    ]
    if pairs:
        alternatives.append([{"matchExpressions": pairs}])
    merged_affinity: Json = {PREFERRED: [*mine.get(PREFERRED, []), *theirs.get(PREFERRED, [])]}
    if alternatives:
        merged_affinity[REQUIRED] = {"nodeSelectorTerms": _all_of(alternatives)}
    affinity["nodeAffinity"] = merged_affinity


def _all_of(alternatives: list[list[Json]]) -> list[Json]:
    """Terms for "one of each list": every combination, save those with a term for no node."""
    return [
        {
            part: [item for term in combination for item in term.get(part, [])]
            for part in ("matchExpressions", "matchFields")
        }
        for combination in product(*alternatives)
        if all(term.get("matchExpressions") or term.get("matchFields") for term in combination)
    ]


def as_documented(pod: Json, namespaces: dict[str, dict[str, str]]) -> Json:
    """The pod with namespace selectors spelled out where the stock plugin misreads them.

    For the pod that is to be placed, InterPodAffinity (1.36.3) resolves a namespaceSelector into
    names, but then also matches it against no labels at all, so that one which such labels satisfy
    (NotIn, DoesNotExist) selects every namespace. Our reading is the documented one.
    """
    pod = copy.deepcopy(pod)
    affinity = pod["spec"].get("affinity", {})
    for kind in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(kind, {})
        for term in part.get(REQUIRED, []) + [
            wish["podAffinityTerm"] for wish in part.get(PREFERRED, [])
        ]:
            selector = term.get("namespaceSelector")
            if selector and _selects(selector, {}):
                found = [name for name, labels in namespaces.items() if _selects(selector, labels)]
                term["namespaces"] = [*term.get("namespaces", []), *found] or ["none-of-them"]
                del term["namespaceSelector"]
    return pod


def _selects(selector: Json, labels: dict[str, str]) -> bool:
    for key, value in selector.get("matchLabels", {}).items():
        if labels.get(key) != value:
            return False
    for requirement in selector.get("matchExpressions", []):
        key, values = requirement["key"], requirement.get("values", [])
        holds = {
            "In": key in labels and labels[key] in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }[requirement["operator"]]
        if not holds:
            return False
    return True
