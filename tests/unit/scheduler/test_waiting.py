"""Which refused pods are worth another try, and how often kube-scheduler is told."""

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from schedclass.domain.scheduling import Pod
from schedclass.scheduler.waiting import FIRST_PAUSE, LONGEST_PAUSE, RefusedPods, kind_of


class Times:
    """A state that is asked, its version, and a clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.version = 1
        self.class_name = "dc"
        self.open: set[str] = set()
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.asked_for: list[str] = []
        self.refused = RefusedPods(
            version=lambda: self.version,
            passing=self._passing,
            class_of=lambda _: self.class_name,
            clock=lambda: self.now,
        )

    def _passing(self, pod: Pod, names: tuple[str, ...]) -> bool:
        self.asked_for.append(pod.uid)
        self.asked.append((pod.labels.get("app", ""), names))
        return bool(self.open & set(names))

    def change(self, *open_nodes: str) -> None:
        self.version += 1
        self.open = set(open_nodes)

    def due(self) -> float | None:
        for _ in self.refused.look():
            pass
        return self.refused.due()


def pod(name: str, app: str = "web") -> Pod:
    return Pod(uid=name, namespace="team", name=name, labels={"app": app})


def test_nothing_is_asked_while_nothing_has_changed() -> None:
    times = Times()
    times.refused.refused(pod("a"), ["n1"])
    assert times.due() is None
    assert times.asked == []


def test_pods_of_one_kind_are_asked_about_once() -> None:
    times = Times()
    for name in "abc":
        times.refused.refused(pod(name), ["n1", "n2"])
    times.refused.refused(pod("d", app="db"), ["n1", "n2"])
    times.change()
    assert times.due() is None
    assert sorted(times.asked) == [("db", ("n1", "n2")), ("web", ("n1", "n2"))]
    assert times.due() is None
    assert len(times.asked) == 2


def test_only_the_nodes_that_were_refused_count() -> None:
    times = Times()
    times.refused.refused(pod("a"), ["n1"])
    times.change("n2")
    assert times.due() is None
    times.change("n1", "n2")
    assert times.due() == 0


def test_a_pod_that_is_tried_anew_is_asked_for_no_more() -> None:
    times = Times()
    times.refused.refused(pod("a"), ["n1"])
    times.change("n1")
    assert times.due() == 0
    times.refused.tried("a")
    assert times.due() is None
    assert len(times.refused) == 0


def test_a_refusal_by_the_new_state_stands_until_the_next_change() -> None:
    times = Times()
    times.refused.refused(pod("a"), ["n1"])
    times.change()
    times.refused.refused(pod("a"), ["n1"])
    assert times.due() is None
    assert times.asked == []


def test_a_refusal_speaks_for_all_who_ask_the_same() -> None:
    times = Times()
    times.refused.refused(pod("a"), ["n1"])
    times.change("n1")
    assert times.due() == 0
    times.change()
    times.refused.refused(pod("b"), ["n1"])
    assert times.due() is None
    times.change("n1")
    assert times.due() == 0


def test_a_pod_whose_class_is_another_is_to_say_another_reason() -> None:
    times = Times()
    times.refused.refused(pod("a"), ["n1"])
    times.class_name = "other"
    times.change()
    assert times.due() == 0
    times.refused.refused(pod("a"), ["n1"])
    times.change()
    assert times.due() is None


def test_who_does_not_come_is_asked_for_again_and_ever_more_rarely() -> None:
    times = Times()
    times.refused.refused(pod("a"), ["n1"])
    times.change("n1")
    pauses: list[float] = []
    while (due := times.due()) is not None:
        times.now += due
        pauses.append(due)
        times.refused.nudged()
    assert pauses[:4] == [0, FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    assert pauses[-1] == LONGEST_PAUSE
    assert 60 < sum(pauses) < 180


def test_who_was_given_up_is_asked_for_again_once_it_was_refused_anew() -> None:
    times = Times()
    times.refused.refused(pod("a"), ["n1"])
    times.change("n1")
    while (due := times.due()) is not None:
        times.now += due
        times.refused.nudged()
    times.change()
    times.refused.refused(pod("a"), ["n1"])
    times.change("n1")
    assert times.due() == 0


@given(st.permutations([f"n{number}" for number in range(6)]))
def test_the_order_in_which_nodes_are_named_does_not_matter(order: list[str]) -> None:
    times = Times()
    times.refused.refused(pod("a"), sorted(order))
    times.refused.refused(pod("b"), ["".join(name) for name in order])
    times.change()
    assert times.due() is None
    assert len(times.asked) == 1


def test_a_chance_that_has_passed_is_not_told() -> None:
    times = Times()
    times.refused.refused(pod("a"), ["n1"])
    times.change("n1")
    assert times.due() == 0
    times.change()
    assert times.due() is None


def test_a_group_whose_last_pod_goes_while_others_are_asked_about_is_left_out() -> None:
    times = Times()
    for name in ("a", "b"):
        times.refused.refused(pod(name, app=name), ["n1"])
    times.change("n1")
    for _ in times.refused.look():
        times.refused.tried("b")
    assert times.asked_for == ["a"]
    assert times.due() == 0


def test_pods_differ_in_kind_by_their_priority_and_by_what_a_preemption_promised_them() -> None:
    plain = pod("a")
    assert kind_of(plain) == kind_of(pod("b"))
    assert kind_of(plain) != kind_of(replace(plain, priority=1))
    nominated = replace(plain, nominated_node="n1")
    assert kind_of(plain) != kind_of(nominated)
    assert kind_of(nominated) != kind_of(replace(plain, nominated_node="n2"))
    # A hint of ours promises nothing.
    assert kind_of(plain) == kind_of(replace(nominated, hinted=True))


NAMES = st.sampled_from(["n1", "n2", "n3"])
STEPS = st.lists(
    st.tuples(st.just("refused"), st.sampled_from("abcd"), st.frozensets(NAMES, min_size=1))
    | st.tuples(st.just("tried"), st.sampled_from("abcd"), st.just(frozenset[str]()))
    | st.tuples(st.just("change"), st.just(""), st.frozensets(NAMES)),
    max_size=30,
)


@given(STEPS)
def test_whoever_could_be_helped_is_told_of(
    steps: Iterable[tuple[str, str, frozenset[str]]],
) -> None:
    """After any history: a nudge is due exactly if a pod was refused on a node that is open now."""
    times = Times()
    waiting: dict[str, frozenset[str]] = {}
    for kind, name, nodes in steps:
        if kind == "refused":
            # Filter refuses only what is closed.
            closed = nodes - times.open
            if closed:
                waiting[name] = closed
                times.refused.refused(pod(name, app=name), sorted(closed))
        elif kind == "tried":
            waiting.pop(name, None)
            times.refused.tried(name)
        else:
            times.change(*nodes)
    helped = any(nodes & times.open for nodes in waiting.values())
    assert (times.due() is not None) == helped


@given(STEPS)
def test_only_pods_that_still_wait_are_asked_about(
    steps: Iterable[tuple[str, str, frozenset[str]]],
) -> None:
    """After any history of pods of one kind, each list of nodes is asked about for one of them."""
    times = Times()
    waiting: dict[str, frozenset[str]] = {}
    for kind, name, nodes in steps:
        if kind == "refused":
            waiting[name] = nodes
            times.refused.refused(pod(name), sorted(nodes))
        elif kind == "tried":
            waiting.pop(name, None)
            times.refused.tried(name)
        else:
            times.change(*nodes)
            times.asked.clear()
            times.asked_for.clear()
            times.due()
            assert set(times.asked_for) <= waiting.keys()
            assert {frozenset(asked) for _, asked in times.asked} == set(waiting.values())
