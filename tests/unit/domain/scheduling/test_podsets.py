"""Compiled label selectors mean what the models they come from mean."""

from collections.abc import Mapping, Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from schedclass.domain.podfields import LabelSelector
from schedclass.domain.scheduling.podset_index import PodSetIndex
from schedclass.domain.scheduling.podsets import PodSet, compile_selector
from schedclass.domain.selectors import matches_label_selector
from tests.differential import clusters

seeds = st.integers(0, 2**32)


@given(seeds)
def test_a_compiled_selector_matches_what_its_model_matches(seed: int) -> None:
    rng = Random(seed)
    model = LabelSelector.model_validate(clusters.label_selector(clusters.LABELS)(rng))
    compiled = compile_selector(model)
    assert compiled is not None
    for _ in range(8):
        labels = clusters.pairs(0.5, clusters.LABELS)(rng)
        assert compiled.matches(labels) == matches_label_selector(model, labels)


def test_equal_selectors_compile_to_the_same_however_they_are_written() -> None:
    pairs = LabelSelector(match_labels={"a": "1", "b": "2"})
    expressions = LabelSelector.model_validate(
        {
            "matchExpressions": [
                {"key": "b", "operator": "In", "values": ["2"]},
                {"key": "a", "operator": "In", "values": ["1"]},
            ]
        }
    )
    assert compile_selector(pairs) == compile_selector(expressions)
    assert compile_selector(None) is None


@given(seeds)
def test_the_index_finds_exactly_the_sets_that_a_pod_is_in(seed: int) -> None:
    rng = Random(seed)
    index: PodSetIndex[int] = PodSetIndex()
    sets = [
        PodSet(
            frozenset(rng.sample(clusters.NAMESPACES, rng.randint(0, 2))),
            compile_selector(an_optional_selector(rng, clusters.NAMESPACE_LABELS)),
            compile_selector(an_optional_selector(rng, clusters.LABELS)),
        )
        for _ in range(12)
    ]
    for number, pods in enumerate(sets):
        index.add(number, pods)
    for number in range(0, len(sets), 3):
        index.discard(number, sets[number])
    for _ in range(5):
        namespace = rng.choice(clusters.NAMESPACES)
        namespace_labels = clusters.pairs(0.5, clusters.NAMESPACE_LABELS)(rng)
        labels = clusters.pairs(0.5, clusters.LABELS)(rng)
        assert sorted(index.matching(namespace, namespace_labels, labels)) == [
            number
            for number, pods in enumerate(sets)
            if number % 3 and pods.has(namespace, namespace_labels, labels)
        ]
    for number, pods in enumerate(sets):
        index.discard(number, pods)
    assert len(index) == 0


def an_optional_selector(rng: Random, stock: Mapping[str, Sequence[str]]) -> LabelSelector | None:
    if rng.random() < 0.3:
        return None
    return LabelSelector.model_validate(clusters.label_selector(stock)(rng))
