"""Hypothesis strategies that generate raw class specs.

Most of a generated spec is right; what makes it worth sending to a validator is a small, shared
stock of keys (so that rules about repeated keys meet), edge values, and mutations of one place in
the tree (null, another type, a missing or doubled part).
"""

import copy
from typing import Any

from hypothesis import strategies as st

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Json = Any

SECTIONS = (
    "nodeSelector",
    "nodeAffinity",
    "podAffinity",
    "podAntiAffinity",
    "topologySpreadConstraints",
)

GOOD_KEYS = (
    "app",
    "zone",
    "topology.kubernetes.io/zone",
    "kubernetes.io/hostname",
    "a.b.c/d_e.f-g",
    "x",
    "1",
    "example.com/" + "n" * 63,
    "p" * 63 + "." + "q" * 63 + "/k",
)
ODD_KEYS = (
    "",
    "/",
    "a/",
    "/a",
    "a/b/c",
    "-a",
    "a-",
    "a b",
    "_",
    "Upper.Example/a",
    "under_score/a",
    "a..b/c",
    "n" * 64,
    "p" * 254 + "/a",
    "app\n",
    "ä",
    "example.com/" + "n" * 64,
)
GOOD_VALUES = ("", "a", "b", "West", "1", "a_b.c-d", "v" * 63, "007")
ODD_VALUES = ("-bad-", "v" * 64, "a b", "a/b", "a\n", "é", ".", "-5", "+5", "9" * 30)
GOOD_NAMESPACES = ("default", "tenant-a", "n" * 63, "0")
ODD_NAMESPACES = ("", "Tenant", "a.b", "-a", "n" * 64, "a_b")
GOOD_NODES = ("node-1", "n.example.com", "a." * 126 + "a")
ODD_NODES = ("", "Node", "a..b", "n" * 254, "a_b")


def _mostly(good: st.SearchStrategy[Any], odd: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 9).flatmap(lambda dice: odd if dice == 7 else good)


def _pick(good: tuple[str, ...], odd: tuple[str, ...]) -> st.SearchStrategy[str]:
    return _mostly(st.sampled_from(good), st.sampled_from(odd))


def _fields(
    always: dict[str, st.SearchStrategy[Any]],
    sometimes: dict[str, st.SearchStrategy[Any]] | None = None,
) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(always, optional=sometimes or {})


def _lists(items: st.SearchStrategy[Any], *, least: int = 0, most: int = 2) -> st.SearchStrategy:
    return st.lists(items, min_size=least, max_size=most)


def _sections(
    keys: st.SearchStrategy[str], values: st.SearchStrategy[str], *, odd: bool
) -> dict[str, st.SearchStrategy[Json]]:
    """Strategies of the five fields, of given label keys and values, with odd others or without."""

    def either(good: tuple[Any, ...], bad: tuple[Any, ...]) -> st.SearchStrategy[Any]:
        return (
            _mostly(st.sampled_from(good), st.sampled_from(bad)) if odd else st.sampled_from(good)
        )

    labels = st.dictionaries(keys, values, max_size=2)
    set_based = st.one_of(
        _fields(
            {
                "key": keys,
                "operator": either(("In", "NotIn"), ("Is", "", "in")),
                "values": _lists(values, least=0 if odd else 1, most=3),
            }
        ),
        _fields(
            {"key": keys, "operator": either(("Exists", "DoesNotExist"), ("exists",))},
            {"values": _lists(values, most=1) if odd else st.just([])},
        ),
    )
    numbers = either(("1", "42", "007"), ("x", "", "-1", "+1", "1_0", "9" * 25))
    compared = _fields(
        {
            "key": keys,
            "operator": st.sampled_from(("Gt", "Lt")),
            "values": _lists(numbers, least=0 if odd else 1, most=2 if odd else 1),
        }
    )
    by_name = _fields(
        {
            "key": either(("metadata.name",), ("metadata.labels", "", "name")),
            "operator": either(("In", "NotIn"), ("Exists", "Gt")),
            "values": _lists(
                either(GOOD_NODES, ODD_NODES), least=0 if odd else 1, most=2 if odd else 1
            ),
        }
    )
    few = 1 if odd else 0  # one that holds nothing has nothing odd in it
    term = st.one_of(
        _fields({"matchExpressions": _lists(st.one_of(set_based, compared), least=few)}),
        _fields({"matchFields": _lists(by_name, least=few, most=1)}),
        _fields(
            {},
            {"matchExpressions": _lists(set_based), "matchFields": _lists(by_name, most=1)},
        ),
    )
    weight = either((1, 50, 100), (0, 101, -1, 2**31 - 1, 2**31))
    required_terms = _fields({"nodeSelectorTerms": _lists(term, least=0 if odd else 1)})
    preferred_terms = _lists(_fields({"weight": weight, "preference": term}), least=few)
    node_affinity = _affinity(required_terms, preferred_terms)
    selector = _fields({}, {"matchLabels": labels, "matchExpressions": _lists(set_based)})
    pod_term = _fields(
        {"topologyKey": keys},
        {
            "labelSelector": selector,
            "namespaces": _lists(either(GOOD_NAMESPACES, ODD_NAMESPACES)),
            "namespaceSelector": selector,
            "matchLabelKeys": _lists(keys),
            "mismatchLabelKeys": _lists(keys),
        },
    )
    weighted = _fields({"weight": weight, "podAffinityTerm": pod_term})
    pod_affinity = _affinity(_lists(pod_term, least=few), _lists(weighted, least=few))
    policy = either(("Honor", "Ignore"), ("honor", "", "Never"))
    spread = _fields(
        {
            "maxSkew": either((1, 2, 2**31 - 1), (0, -1, 2**31)),
            "topologyKey": st.one_of(keys, either(("zone",), ("", "not a key", "a/b/c"))),
            "whenUnsatisfiable": either(
                ("DoNotSchedule", "ScheduleAnyway"), ("", "Never", "doNotSchedule")
            ),
        },
        {
            "labelSelector": selector,
            "nodeAffinityPolicy": policy,
            "nodeTaintsPolicy": policy,
            "minDomains": either((1, 2), (0, -1, 2**31)),
            "matchLabelKeys": _lists(keys),
        },
    )
    return {
        "nodeSelector": labels,
        "nodeAffinity": node_affinity,
        "podAffinity": pod_affinity,
        "podAntiAffinity": pod_affinity,
        "topologySpreadConstraints": _lists(spread, least=few, most=3),
    }


def _affinity(
    required: st.SearchStrategy[Json], preferred: st.SearchStrategy[Json]
) -> st.SearchStrategy[Json]:
    return st.one_of(
        _fields({REQUIRED: required}),
        _fields({PREFERRED: preferred}),
        _fields({REQUIRED: required, PREFERRED: preferred}),
    )


def label_maps() -> st.SearchStrategy[dict[str, str]]:
    """Well-formed labels whose keys and values meet those of the generated selectors."""
    return st.dictionaries(st.sampled_from(GOOD_KEYS), st.sampled_from(GOOD_VALUES), max_size=5)


def orderly_specs() -> st.SearchStrategy[Json]:
    """Specs with well-formed values only; rules between fields may still be broken."""
    keys, values = st.sampled_from(GOOD_KEYS), st.sampled_from(GOOD_VALUES)
    return _fields({}, _sections(keys, values, odd=False))


def nearly_valid_specs() -> st.SearchStrategy[Json]:
    """Specs of one field with an odd value here and there, of the right type.

    More fields would hide one error behind another. The label keys are few, so that they meet.
    """
    few = st.lists(_pick(GOOD_KEYS, ODD_KEYS), min_size=1, max_size=2)
    values = _pick(GOOD_VALUES, ODD_VALUES)
    return st.tuples(st.sampled_from(SECTIONS), few).flatmap(
        lambda drawn: _fields(
            {drawn[0]: _sections(st.sampled_from(drawn[1]), values, odd=True)[drawn[0]]}
        )
    )


ODDITIES: tuple[Json, ...] = (
    None,
    True,
    0,
    -1,
    7,
    2**31,
    2**40,
    1.5,
    "",
    "1",
    "x",
    "In",
    [],
    {},
    [None],
    [{}],
    ["a"],
    [[]],
    {"a": "b"},
    {"a": None},
    {"key": "a"},
)


def _places(tree: Json, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    children: list[tuple[str | int, Json]] = []
    if isinstance(tree, dict):
        children = list(tree.items())
    elif isinstance(tree, list):
        children = list(enumerate(tree))
    return [
        place for key, child in children for place in [(*path, key), *_places(child, (*path, key))]
    ]


@st.composite
def mutated(draw: st.DrawFn, specs: st.SearchStrategy[Json]) -> Json:
    """Specs of which one place is replaced, removed, doubled or joined by an unknown field."""
    spec = copy.deepcopy(draw(specs))
    places = _places(spec)
    if not places:
        return spec
    place: tuple[Any, ...] = draw(st.sampled_from(places))
    *parents, last = place
    parent: Any = spec
    for key in parents:
        parent = parent[key]
    change = draw(st.sampled_from(("replace", "replace", "remove", "double", "add")))
    if change == "remove":
        del parent[last]
    elif change == "double" and isinstance(parent, list):
        parent.append(copy.deepcopy(parent[last]))
    elif change == "add" and isinstance(parent[last], dict):
        parent[last][draw(st.sampled_from(("labelselector", "affinity", "values", "key")))] = "x"
    else:
        parent[last] = copy.deepcopy(draw(st.sampled_from(ODDITIES)))
    return spec


def class_specs() -> st.SearchStrategy[Json]:
    """Raw specs as people and programs write them: right, nearly right, and wrong in one place."""
    return st.one_of(
        orderly_specs(), nearly_valid_specs(), nearly_valid_specs(), mutated(nearly_valid_specs())
    )
