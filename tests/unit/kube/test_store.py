"""The store holds the newest truth, whatever order it comes in."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedclass.kube.store import CHUNK, Listing, Store, object_key, version_number

Raw = dict[str, Any]


def raw(name: str, version: int | str, value: int = 0) -> Raw:
    return {"metadata": {"name": name, "resourceVersion": str(version)}, "value": value}


def value_of(obj: Mapping[str, Any]) -> int:
    value = obj["value"]
    assert isinstance(value, int)
    return value


def contents(store: Store[int]) -> dict[str, int]:
    return dict(store.items())


@dataclass
class Server:
    """The truth: a history of writes, each with the next resourceVersion."""

    version: int = 0
    objects: dict[str, Raw] = field(default_factory=dict)
    log: list[tuple[str, Raw]] = field(default_factory=list)

    def write(self, name: str, value: int) -> None:
        self.version += 1
        kind = "MODIFIED" if name in self.objects else "ADDED"
        self.objects[name] = raw(name, self.version, value)
        self.log.append((kind, self.objects[name]))

    def delete(self, name: str) -> None:
        if name in self.objects:
            self.version += 1
            old = self.objects.pop(name)
            self.log.append(("DELETED", raw(name, self.version, old["value"])))

    def values(self) -> dict[str, int]:
        return {name: obj["value"] for name, obj in self.objects.items()}


NAMES = st.sampled_from("abc")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES, st.integers(0, 2)),
        st.tuples(st.just("delete"), NAMES),
        st.tuples(st.just("deliver"), st.integers(1, 3)),
        st.tuples(st.just("ask for list")),
        st.tuples(st.just("finish list")),
        st.tuples(st.just("drop list")),
        st.tuples(st.just("echo"), st.integers(0, 30)),
    ),
    min_size=25,  # otherwise most are too short for a LIST to overlap with anything
    max_size=60,
)


class Play:
    """Feeds a store from a server by a watch that lags, LISTs that lag, and echoes of old events.

    An echo is any event of the past delivered once more: the answer to a write of our own may
    overtake the watch or come long after it.
    """

    def __init__(self) -> None:
        self.server = Server()
        self.store: Store[int] = Store(value_of)
        self.delivered = 0
        self.listing: Listing[int] | None = None
        self.snapshot: tuple[list[Raw], int] = ([], 0)
        self.evidence: dict[str, tuple[int, Raw | None]] = {}
        self.told: dict[str, int] = {}
        self.store.on_change(self._follow)

    def _follow(self, key: str, old: int | None, new: int | None) -> None:
        assert old != new
        assert self.told.get(key) == old
        if new is None:
            del self.told[key]
        else:
            self.told[key] = new

    def step(self, step: tuple[Any, ...]) -> None:
        match step:
            case ("write", name, value):
                self.server.write(name, value)
            case ("delete", name):
                self.server.delete(name)
            case ("deliver", count):
                for event in self.server.log[self.delivered : self.delivered + count]:
                    self._apply(event)
                    self.delivered += 1
            case ("echo", index) if index < len(self.server.log):
                self._apply(self.server.log[index])
            case ("ask for list",):
                self.listing = self.store.begin_list()
                self.snapshot = (list(self.server.objects.values()), self.server.version)
            case ("finish list",) if self.listing is not None:
                self._finish(self.listing)
                self.listing = None
            case ("drop list",):
                self.listing = None

    def _learn(self, name: str, version: int, obj: Raw | None) -> None:
        """The model: of all that was ever told about a name, the newest counts."""
        if version > self.evidence.get(name, (-1, None))[0]:
            self.evidence[name] = (version, obj)

    def _apply(self, event: tuple[str, Raw]) -> None:
        kind, obj = event
        news = self.store.is_news(kind, obj)
        assert self.store.apply(kind, obj) == news
        version = int(obj["metadata"]["resourceVersion"])
        self._learn(obj["metadata"]["name"], version, None if kind == "DELETED" else obj)

    def _finish(self, listing: Listing[int]) -> None:
        items, version = self.snapshot
        for _ in listing.take(items):
            pass
        for _ in listing.merge(str(version)):
            pass
        assert not listing.history_reset
        for obj in items:
            self._learn(obj["metadata"]["name"], int(obj["metadata"]["resourceVersion"]), obj)
        for name in set("abc") - {obj["metadata"]["name"] for obj in items}:
            self._learn(name, version, None)

    def expected(self) -> dict[str, int]:
        return {name: obj["value"] for name, (_, obj) in self.evidence.items() if obj is not None}


@given(STEPS)
def test_any_interleaving_of_events_and_lists_ends_in_the_truth(steps: list[Any]) -> None:
    play = Play()
    for step in steps:
        play.step(step)
        assert contents(play.store) == play.told == play.expected()
    play.step(("deliver", 1000))
    assert contents(play.store) == play.server.values()
    assert play.told == play.server.values()


@given(STEPS)
def test_a_list_alone_heals_whatever_the_watch_missed(steps: list[Any]) -> None:
    play = Play()
    for step in steps:
        play.step(step)
    play.step(("ask for list",))
    play.step(("finish list",))
    assert contents(play.store) == play.server.values()
    assert play.store.synced


def filled() -> Store[int]:
    store: Store[int] = Store(value_of)
    store.replace_all([raw("a", 5, 1), raw("b", 6, 1)], "10")
    return store


def test_an_event_newer_than_the_list_survives_its_sweep() -> None:
    store = filled()
    listing = store.begin_list()
    store.apply("ADDED", raw("c", 12, 3))
    for _ in listing.merge("11"):
        pass
    assert contents(store) == {"c": 3}
    assert store.swept == 2


def test_a_list_does_not_bring_back_what_was_deleted_after_it() -> None:
    store = filled()
    listing = store.begin_list()
    for _ in listing.take([raw("a", 5, 1), raw("b", 6, 1)]):
        pass
    store.apply("DELETED", raw("b", 12, 1))
    for _ in listing.merge("11"):
        pass
    assert contents(store) == {"a": 1}


def test_the_late_answer_to_a_write_does_not_bring_back_a_deleted_object() -> None:
    store = filled()
    store.apply("DELETED", raw("a", 12))
    assert not store.apply("MODIFIED", raw("a", 11, 7))
    assert "a" not in store


def test_an_object_created_again_under_its_name_is_taken() -> None:
    store = filled()
    store.apply("DELETED", raw("a", 12))
    assert store.apply("ADDED", raw("a", 13, 9))
    assert store.get("a") == 9


def test_an_unfinished_list_shows_nothing() -> None:
    store = filled()
    listing = store.begin_list()
    for _ in listing.take([raw("z", 11, 1)]):
        pass
    assert contents(store) == {"a": 1, "b": 1}
    empty: Store[int] = Store(value_of)
    for _ in empty.begin_list().take([raw("z", 11, 1)]):
        pass
    assert not empty.synced
    assert len(empty) == 0


def test_versions_set_back_by_a_restore_are_believed_from_a_list() -> None:
    store = filled()
    store.apply("MODIFIED", raw("a", 5000, 2))
    listing = store.begin_list()
    for _ in listing.take([raw("a", 7, 3)]):
        pass
    for _ in listing.merge("8"):
        pass
    assert listing.history_reset
    assert contents(store) == {"a": 3}
    assert store.apply("MODIFIED", raw("a", 9, 4))
    assert store.get("a") == 4


def test_a_restore_that_raises_only_the_version_of_the_whole_is_believed_as_well() -> None:
    """`etcdutl snapshot restore --bump-revision`: each object keeps the version that it had."""
    store = filled()
    store.apply("MODIFIED", raw("a", 100, 2))
    store.apply("DELETED", raw("b", 101))
    store.apply("ADDED", raw("c", 102, 2))
    store.replace_all([raw("a", 10, 1), raw("b", 10, 1)], "1000000060")
    assert contents(store) == {"a": 1, "b": 1}
    assert not store.apply("MODIFIED", raw("a", 100, 2))
    assert store.apply("MODIFIED", raw("a", 1000000061, 3))
    assert store.get("a") == 3


@pytest.mark.parametrize("version", ["", "abc", "1.5", "-3", "\uff19"])
def test_versions_that_are_no_numbers_have_no_order(version: str) -> None:
    assert version_number(version) is None
    store: Store[int] = Store(value_of)
    store.apply("ADDED", raw("a", version, 1))
    store.apply("MODIFIED", raw("a", version, 2))
    assert store.get("a") == 2
    store.replace_all([raw("b", version, 1)], version)
    assert contents(store) == {"b": 1}


def test_without_comparable_versions_what_arrives_last_counts() -> None:
    store: Store[int] = Store(value_of, ordered=False)
    store.replace_all([raw("a", 900, 1), raw("b", 900, 1)], "3")
    listing = store.begin_list()
    for _ in listing.take([raw("a", 2, 2), raw("b", 2, 2)]):
        pass
    store.apply("MODIFIED", raw("a", 1, 5))
    store.apply("ADDED", raw("c", 1, 6))
    store.apply("DELETED", raw("b", 1))
    for _ in listing.merge("4"):
        pass
    assert contents(store) == {"a": 5, "c": 6}


def test_an_object_that_cannot_be_read_keeps_its_last_known_state() -> None:
    store = filled()
    broken = raw("a", 11)
    del broken["value"]
    assert not store.apply("MODIFIED", broken)
    store.replace_all([broken, raw("c", 9, 2), {"metadata": {}}, {}], "12")
    assert contents(store) == {"a": 1, "c": 2}
    assert store.rejected == 4


def test_strange_events_are_refused_without_harm() -> None:
    store = filled()
    for event in ({}, {"metadata": None}, {"metadata": {"resourceVersion": "99"}}):
        assert not store.apply("MODIFIED", event)
    assert contents(store) == {"a": 1, "b": 1}


def test_a_failing_listener_keeps_nobody_else_from_hearing() -> None:
    store = filled()
    heard = []

    def fails(key: str, old: int | None, new: int | None) -> None:
        raise RuntimeError(key)

    store.on_change(fails)
    store.on_change(lambda *change: heard.append(change))
    store.apply("MODIFIED", raw("a", 11, 2))
    store.apply("MODIFIED", raw("a", 12, 3))
    assert heard == [("a", 1, 2), ("a", 2, 3)]
    assert store.listener_errors == 2


def test_a_change_of_fields_nobody_keeps_is_not_told() -> None:
    store = filled()
    heard = []
    store.on_change(lambda *change: heard.append(change))
    assert store.apply("MODIFIED", raw("a", 11, 1))
    assert heard == []


def test_freshness_is_the_age_of_the_last_sign_of_life() -> None:
    now = 100.0
    store: Store[int] = Store(value_of, clock=lambda: now)
    assert not store.fresh(1e9)
    store.touch("7")
    now = 130.0
    assert store.fresh(30)
    assert not store.fresh(29)
    assert store.newest == 7
    store.apply("ADDED", raw("a", 8))
    now = 170.0
    assert not store.is_news("MODIFIED", raw("a", 8))
    assert store.fresh(0)


def test_namespaced_objects_have_their_namespace_in_the_key() -> None:
    assert object_key({"metadata": {"name": "a", "namespace": "n"}}) == "n/a"
    assert object_key({"metadata": {"name": "a"}}) == "a"


async def test_a_large_list_lets_other_tasks_run() -> None:
    store: Store[int] = Store(value_of)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while not store.synced:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    listing = store.begin_list()
    await listing.add(raw(f"n{i}", i + 1) for i in range(100 * CHUNK))
    await listing.finish("99999")
    await task
    await store.wait_synced()
    assert turns >= 200
    assert len(store) == 100 * CHUNK
