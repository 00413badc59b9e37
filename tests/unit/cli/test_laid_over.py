"""`--live -f`: a manifest laid over a namespace leaves on it what it does not name."""

import json
from pathlib import Path
from typing import Any

import pytest

from schedclass.cli import gather
from schedclass.cli.gather import Connection
from schedclass.cli.options import Common
from schedclass.cli.source import snapshot_of_manifests
from schedclass.domain import names
from schedclass.domain.insight.changes import overlay
from schedclass.domain.insight.snapshot import NamespaceRecord, Snapshot
from schedclass.kube.credentials import default_source
from tests.unit.cli.running import NODES, Done, schedclass

Json = dict[str, Any]

INHERITED = {
    names.INHERITED_FROM: "tenant-a",
    names.INHERITED_CLASS: "dc-west",
    names.INHERITED_FROM_UID: "uid-tenant-a",
}
LABELS = {names.CLASS_KEY: "dc-west", names.ENFORCED: "true"}


def of_class(name: str, region: str) -> Json:
    spec = {"nodeSelector": {names.REGION_LABEL: region}}
    metadata = {"name": name, "uid": f"uid-{name}"}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": metadata,
        "spec": spec,
    }


def namespace(name: str, **metadata: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}


def stored(name: str, **metadata: Any) -> Json:
    return namespace(name, uid=f"uid-{name}", **metadata)


THERE = (
    of_class("dc-west", "west"),
    of_class("dc-east", "east"),
    stored("tenant-root"),
    stored("tenant-a", labels=LABELS),
    stored("tenant-a-b", labels=LABELS, annotations=INHERITED),
    stored("tenant-a-w", labels=LABELS, annotations={**INHERITED, names.REQUESTED_CLASS: "x"}),
    stored("tenant-bare"),
)


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cluster that holds THERE."""
    held = snapshot(tmp_path / "there.json", *THERE, files=(NODES,))
    reached = Connection(default_source({}), "default")
    monkeypatch.setattr(gather, "connection", lambda _: reached)
    monkeypatch.setattr(gather, "gather_snapshot", lambda *_: held)


def snapshot(path: Path, *objects: Json, files: tuple[str, ...] = ()) -> Snapshot:
    path.write_text("\n".join(map(json.dumps, objects)), encoding="utf-8")
    return snapshot_of_manifests((*files, str(path)), Common())


def laid_over(*arguments: str, given: Json) -> Done:
    return schedclass(*arguments, "--live", "-f", "-", stdin=json.dumps(given))


def drifted(done: Done) -> list[str]:
    found = done.document["violations"]
    return [v["subject"]["name"] for v in found if v["finding"]["reason"] == "LabelDrift"]


ALL = ["tenant-root", "tenant-a", "tenant-a-b", "tenant-a-w", "tenant-bare"]
WITH_CLASS = ["tenant-a", "tenant-a-b", "tenant-a-w"]


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    "metadata",
    [{}, {"labels": {"team": "x"}, "annotations": {"note": "y"}}, {"labels": None}],
    ids=["bare", "other keys", "null"],
)
def test_what_the_operator_wrote_stays_where_a_manifest_does_not_name_it(
    name: str, metadata: Json
) -> None:
    given = namespace(name, **metadata)
    assert drifted(laid_over("check", "-o", "json", given=given)) == []
    told = laid_over("explain", "ns", name, given=given).out
    assert "Written: labels and annotations are as decided" in told


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize("name", WITH_CLASS)
def test_a_manifest_that_names_the_class_as_it_is_changes_nothing(name: str) -> None:
    given = namespace(name, labels={names.CLASS_KEY: "dc-west"})
    assert drifted(laid_over("check", "-o", "json", given=given)) == []
    assert "as decided" in laid_over("explain", "ns", name, given=given).out


@pytest.mark.usefixtures("live")
def test_another_class_in_the_manifest_counts() -> None:
    given = namespace("tenant-a", labels={names.CLASS_KEY: "dc-east"})
    rows = laid_over("tree", "-o", "json", given=given).document["namespaces"]
    assert {row["name"]: row.get("className") for row in rows}["tenant-a-b"] == "dc-east"


@pytest.mark.usefixtures("live")
def test_keys_that_a_manifest_sets_wrongly_are_drift_still() -> None:
    given = namespace("tenant-a", labels={names.ENFORCED: "false"})
    assert drifted(laid_over("check", "-o", "json", given=given)) == ["tenant-a"]


def merged(tmp_path: Path, old: Json, new: Json) -> NamespaceRecord:
    base, given = snapshot(tmp_path / "old.json", old), snapshot(tmp_path / "new.json", new)
    (record,) = overlay(base, given).namespaces
    return record


def test_selectors_see_the_labels_that_stay(tmp_path: Path) -> None:
    record = merged(tmp_path, stored("a", labels=LABELS), namespace("a", labels={"team": "x"}))
    assert {key: record.labels[key] for key in (*LABELS, "team")} == {**LABELS, "team": "x"}


@pytest.mark.parametrize("empty", ["", None])
def test_a_label_that_is_named_empty_is_taken_off(tmp_path: Path, empty: str | None) -> None:
    given = namespace("a", labels={names.CLASS_KEY: empty})
    record = merged(tmp_path, stored("a", labels=LABELS), given)
    assert (record.namespace.label, record.namespace.enforced) == (None, True)


def test_owners_and_the_end_of_a_namespace_stay(tmp_path: Path) -> None:
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": "b", "uid": "u"}
    old = stored("a", ownerReferences=[owner], deletionTimestamp="2026-01-01T00:00:00Z")
    record = merged(tmp_path, old, namespace("a"))
    assert [found.name for found in record.namespace.owners] == ["b"]
    assert record.namespace.deleting


def test_an_object_with_a_uid_is_taken_as_it_is(tmp_path: Path) -> None:
    record = merged(tmp_path, stored("a", labels=LABELS), namespace("a", uid="other"))
    assert (record.namespace.label, record.namespace.enforced) == (None, False)
