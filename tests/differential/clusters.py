"""Generates whole clusters with classes and a pod to be placed.

The stock of names and labels is small on purpose, so that terms meet pods, and pods meet nodes.
Plain random choices are used rather than hypothesis, which needs fifty times as long for cases of
this size; `shrinking` makes failing cases small.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from schedclass.domain import names

Json = Any
Make = Callable[[Random], Json]

HOSTNAME = names.HOSTNAME_LABEL
TOPOLOGIES = ("zone", "rack", HOSTNAME)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
FILL_KEYS = names.LINEAGE_LABELS
CONTAINERS = [{"name": "main", "image": "image"}]

NAMESPACES = ("tenant-a", "tenant-b", "plain")
MOST_NAMESPACES = ("tenant-a",) * 4 + NAMESPACES
NAMESPACE_LABELS = {"team": ("x", "y"), "env": ("prod", "test")}
LABELS = {"app": ("web", "db"), "tier": ("1", "2"), "version": ("1", "2")}
NODE_LABELS = {"zone": ("a", "b", "c", ""), "rack": ("1", "2"), "size": ("5", "10", "x")}
TAINTS = (
    {"key": "dedicated", "value": "x", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "y", "effect": "NoExecute"},
    {"key": "slow", "effect": "PreferNoSchedule"},
    {"key": "old", "value": "x", "effect": "PreferNoSchedule"},
)
TOLERATIONS = (
    {"key": "dedicated", "operator": "Exists"},
    {"key": "dedicated", "operator": "Equal", "value": "x", "effect": "NoSchedule"},
    {"operator": "Exists", "effect": "NoExecute"},
    {"key": "slow", "effect": "PreferNoSchedule"},
    {"operator": "Exists"},
)


def one_of(*values: Json) -> Make:
    return lambda rng: rng.choice(values)


def some(chance: float, **fields: Make) -> Make:
    """An object that has each field with a chance."""
    return lambda rng: {name: make(rng) for name, make in fields.items() if rng.random() < chance}


def every(**fields: Make) -> Make:
    return some(2, **fields)


def lists(make: Make, least: int = 0, most: int = 2) -> Make:
    return lambda rng: [make(rng) for _ in range(rng.randint(least, most))]


def distinct(make: Make, key: Callable[[Json], Any], most: int = 2) -> Make:
    def made(rng: Random) -> Json:
        return list({key(item): item for item in lists(make, most=most)(rng)}.values())

    return made


def pairs(chance: float, stock: Mapping[str, Sequence[str]]) -> Make:
    return some(chance, **{key: one_of(*values) for key, values in stock.items()})


def requirement(stock: Mapping[str, Sequence[str]]) -> Make:
    def made(rng: Random) -> Json:
        key = rng.choice([*stock, "none"])
        operator = rng.choice(["In", "In", "NotIn", "Exists", "DoesNotExist"])
        made: Json = {"key": key, "operator": operator}
        if operator in ("In", "NotIn"):
            values = [*stock.get(key, ()), "other"]
            made["values"] = rng.sample(values, rng.randint(1, min(2, len(values))))
        return made

    return made


def label_selector(stock: Mapping[str, Sequence[str]]) -> Make:
    def made(rng: Random) -> Json:
        first, *_ = stock
        common = {first: rng.choice(stock[first])}
        return rng.choice(
            [
                {},
                {"matchLabels": common},
                {"matchLabels": common},
                {"matchExpressions": [requirement(stock)(rng)]},
                {
                    "matchLabels": pairs(0.4, stock)(rng),
                    "matchExpressions": lists(requirement(stock))(rng),
                },
            ]
        )

    return made


def with_label_keys(term: Json, fields: Sequence[str], rng: Random) -> Json:
    """The term, sometimes with label keys that its selector does not use itself."""
    selector = term.get("labelSelector")
    key = rng.choice(["app", "tier", "version", "none"])
    if selector is None or rng.random() < 0.7:
        return term
    used = {item["key"] for item in selector.get("matchExpressions", [])}
    if key not in used | selector.get("matchLabels", {}).keys():
        term[rng.choice(fields)] = [key]
    return term


def affinity_term(rng: Random) -> Json:
    term = every(topologyKey=one_of(*TOPOLOGIES))(rng)
    if rng.random() < 0.8:
        term["labelSelector"] = label_selector(LABELS)(rng)
    term |= some(
        rng.choice([0, 0, 0.4]),
        namespaces=lists(one_of(*NAMESPACES), least=1),
        namespaceSelector=label_selector(NAMESPACE_LABELS),
    )(rng)
    return with_label_keys(term, ("matchLabelKeys", "mismatchLabelKeys"), rng)


def weighted(term: str, make: Make) -> Make:
    return every(weight=one_of(1, 7, 100), **{term: make})


pod_affinity = some(
    0.6,
    **{
        REQUIRED: lists(affinity_term),
        PREFERRED: lists(weighted("podAffinityTerm", affinity_term), most=3),
    },
)
numeric = every(
    key=one_of("size", "rack", "none"),
    operator=one_of("Gt", "Lt"),
    values=one_of(["1"], ["6"], ["007"], ["x"]),
)
field = every(
    key=one_of("metadata.name"),
    operator=one_of("In", "NotIn"),
    values=one_of(["n0"], ["n1"], ["n2"], ["n9"]),
)


def preference(rng: Random) -> Json:
    return some(
        0.8,
        matchExpressions=lists(requirement(NODE_LABELS), least=1, most=rng.choice([1, 1, 2])),
        matchFields=lists(field, most=rng.choice([0, 0, 1])),
    )(rng)


def node_term(rng: Random) -> Json:
    term = preference(rng)
    if rng.random() < 0.2:
        term.setdefault("matchExpressions", []).append(numeric(rng))
    return term


node_affinity = some(
    0.5,
    **{
        REQUIRED: every(nodeSelectorTerms=lists(node_term, least=1, most=3)),
        PREFERRED: lists(weighted("preference", preference), most=3),
    },
)


def spread_constraint(rng: Random) -> Json:
    constraint = every(
        maxSkew=one_of(1, 1, 2),
        topologyKey=one_of(*TOPOLOGIES),
        whenUnsatisfiable=one_of("DoNotSchedule", "ScheduleAnyway"),
    )(rng)
    if rng.random() < 0.8:
        constraint["labelSelector"] = label_selector(LABELS)(rng)
    policy = one_of("Honor", "Ignore")
    constraint |= some(0.4, nodeAffinityPolicy=policy, nodeTaintsPolicy=policy)(rng)
    if constraint["whenUnsatisfiable"] == "DoNotSchedule" and rng.random() < 0.2:
        constraint["minDomains"] = rng.choice([1, 2, 4])
    return with_label_keys(constraint, ("matchLabelKeys",), rng)


spread = distinct(spread_constraint, lambda c: (c["topologyKey"], c["whenUnsatisfiable"]), most=3)


def class_spec(rng: Random) -> Json:
    return some(
        rng.choice([0.4, 0.6, 0.9]),
        nodeSelector=pairs(0.2, {"zone": ("a", "b"), "rack": ("1",)}),
        nodeAffinity=node_affinity,
        podAffinity=pod_affinity,
        podAntiAffinity=pod_affinity,
        topologySpreadConstraints=spread,
    )(rng)


def pod(name: str, rng: Random) -> Json:
    labels = pairs(0.5, LABELS)(rng) | pairs(0.8, {"app": ("web", "web", "db")})(rng)
    if rng.random() < 0.5:
        labels |= dict.fromkeys(FILL_KEYS, "same") | {FILL_KEYS[-1]: rng.choice(["one", "two"])}
    elif rng.random() < 0.2:
        labels[FILL_KEYS[0]] = "same"  # not all of them, so nothing is filled
    affinity = some(
        0.5, nodeAffinity=node_affinity, podAffinity=pod_affinity, podAntiAffinity=pod_affinity
    )
    own = some(
        rng.choice([0, 0.3, 0.7]),
        nodeSelector=pairs(0.3, {"zone": ("a", "b")}),
        affinity=affinity,
        topologySpreadConstraints=spread,
    )(rng)
    metadata = {
        "name": name,
        "uid": name,
        "namespace": rng.choice(MOST_NAMESPACES),
        "labels": labels,
    }
    return {"metadata": metadata, "spec": {"containers": CONTAINERS, **own}}


def running_pod(name: str, rng: Random) -> Json:
    made = pod(name, rng)
    made["spec"]["nodeName"] = rng.choice(["n0", "n0", "n1", "n2", "n3", "n9"])
    made["status"] = {"phase": rng.choice(["Running"] * 5 + ["Pending", "Failed"])}
    if rng.random() < 0.15:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return made


def node(name: str, rng: Random) -> Json:
    labels = pairs(0.95, NODE_LABELS)(rng)
    if rng.random() < 0.95:
        labels[HOSTNAME] = rng.choice([name, name, name, "n0", "shared"])
    taints = distinct(one_of(*TAINTS), lambda taint: taint["key"], most=rng.choice([0, 0, 1, 2]))
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints(rng)}}


def case(rng: Random) -> Json:
    """A case: nodes, namespaces with labels, classes, who has which, running pods, and a pod.

    Keys: `nodes`, `namespaces` (labels by name), `classes` (specs by name), `class_of` (class or
    None by namespace), `pods`, `pod`.
    """
    incoming = pod("incoming", rng)
    incoming["spec"]["tolerations"] = lists(one_of(*TOLERATIONS), most=rng.choice([0, 2]))(rng)
    return {
        "nodes": [node(f"n{i}", rng) for i in range(rng.randint(2, 8))],
        "namespaces": {name: pairs(0.6, NAMESPACE_LABELS)(rng) for name in NAMESPACES},
        "classes": {"one": class_spec(rng), "two": class_spec(rng)},
        "class_of": {
            name: rng.choice(["one", "one", "one", "two", None]) for name in NAMESPACES[:2]
        },
        "pods": [running_pod(f"p{i}", rng) for i in range(rng.randint(0, rng.choice([4, 14])))],
        "pod": incoming,
    }
