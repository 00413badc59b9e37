"""What `check` finds in what was given, what it counts, and what `-n` leaves of it."""

from typing import Any

import pytest

from schedclass.domain import names
from tests.unit.cli.running import NODES, SCENARIOS, Done, manifests, schedclass

BAD_DAY = str(SCENARIOS.parent / "snapshots" / "bad-day.yaml")
WEST = {"nodeSelector": {"topology.kubernetes.io/region": "west"}}
CLASS: dict[str, Any] = {
    "apiVersion": names.API_VERSION,
    "kind": names.KIND,
    "metadata": {"name": "dc-west"},
    "spec": WEST,
}
NAMESPACE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "tenant-a", "labels": {names.CLASS_KEY: "dc-west"}},
}


def check(*objects: dict[str, Any], arguments: tuple[str, ...] = ()) -> Done:
    given = ("-f", NODES, "-f", "-", "-o", "json")
    return schedclass("check", *arguments, *given, stdin=manifests(*objects))


def found(done: Done, part: str = "violations") -> set[tuple[str, str]]:
    return {
        (f["finding"]["reason"], f["finding"]["message"].partition(";")[0])
        for f in done.document[part]
    }


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            {"spec": {**WEST, "nodeSelecter": {}}},
            ("UnsupportedField", "is no known field and has no effect"),
        ),
        ({"sepc": {}}, ("UnsupportedField", 'unknown field "sepc" of SchedulingClass is ignored')),
        (
            {"metadata": {"name": "dc-west", "lables": {}}},
            ("UnsupportedField", 'unknown field "metadata.lables" of SchedulingClass is ignored'),
        ),
        (
            {"kind": "Schedulingclass"},
            ("InvalidObject", '"Schedulingclass" is not known, case matters'),
        ),
        ({"kind": "SchedulingClas"}, ("InvalidObject", '"SchedulingClas" is not known')),
        ({"apiVersion": "cozystack.io/v1"}, ("InvalidObject", '"cozystack.io/v1" is not served')),
        (
            {"apiVersion": "cozystak.io/v1alpha1"},
            ("InvalidObject", '"cozystak.io/v1alpha1" is not served'),
        ),
        (
            {"metadata": {"name": "DC_West"}},
            (
                "InvalidObject",
                "\"DC_West\" must have parts joined by '.', each of only lower-case letters, "
                "digits and '-', with a letter or digit at either end",
            ),
        ),
        (
            {"metadata": {"name": "a" * 64}},
            (
                "InvalidObject",
                f'"{"a" * 64}" has 64 characters',
            ),
        ),
    ],
    ids=str,
)
def test_a_class_that_is_not_what_it_seems_is_found(
    changed: dict[str, Any], expected: tuple[str, str]
) -> None:
    done = check({**CLASS, **changed})
    assert expected in found(done)
    assert done.code == 1


@pytest.mark.parametrize("spec", [{"spec": {}}, {"spec": None}, {}], ids=str)
def test_a_class_that_constrains_nothing_is_noted(spec: dict[str, Any]) -> None:
    bare = {key: value for key, value in CLASS.items() if key != "spec"}
    done = check({**bare, **spec})
    assert found(done, "notes") == {
        ("EmptySpec", "constrains nothing: its pods may run on every node")
    }
    assert done.code == 0
    assert check({**bare, **spec}, arguments=("--strict",)).code == 1


def test_a_class_and_a_namespace_as_they_should_be_give_nothing() -> None:
    done = check(CLASS, NAMESPACE)
    assert (done.code, found(done), found(done, "notes")) == (0, set(), set())


def test_a_class_of_that_name_in_another_group_is_somebody_else_s() -> None:
    assert found(check(CLASS, {**CLASS, "apiVersion": "example.com/v1"})) == set()


def test_a_tenant_whose_wish_is_misspelt_is_found() -> None:
    tenant = {
        "apiVersion": names.TENANT_API_VERSION,
        "kind": "Tenant",
        "metadata": {"name": "a", "namespace": "tenant-root"},
        "spec": {"schedulingclass": "dc-west", "host": "example.com"},
    }
    assert found(check(CLASS, tenant)) == {
        ("UnsupportedField", 'unknown field "spec.schedulingclass"')
    }


def test_an_object_that_is_given_anew_is_judged_as_the_last_one_is() -> None:
    assert found(check({**CLASS, "sepc": {}}, CLASS)) == set()


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (
            {"labels": {"scheduler.cozystack.io/schedulingclass": "dc-west"}},
            'metadata.labels: "scheduler.cozystack.io/schedulingclass" is not known and ignored; '
            "did you mean scheduler.cozystack.io/scheduling-class?",
        ),
        (
            {"annotations": {names.CLASS_KEY: "dc-west"}},
            f'metadata.annotations: "{names.CLASS_KEY}" is ignored here; it is a label',
        ),
        (
            {"labels": {"schedule.cozystack.io/scheduling-class": "dc-west"}},
            'metadata.labels: "schedule.cozystack.io/scheduling-class" is ignored; '
            "did you mean scheduler.cozystack.io/scheduling-class?",
        ),
    ],
)
def test_a_key_that_only_looks_like_ours_is_noted(metadata: dict[str, Any], message: str) -> None:
    text = manifests(CLASS, {**NAMESPACE, "metadata": {"name": "tenant-a", **metadata}})
    done = schedclass("check", "-f", NODES, "-f", "-", stdin=text)
    assert done.code == 0
    assert message in done.out
    assert "0 violations and 1 note in 1 class, 1 namespace, 0 pods, 3 nodes" in done.out
    assert schedclass("check", "--strict", "-f", NODES, "-f", "-", stdin=text).code == 1
    assert message in schedclass("tree", "--troubled", "-f", "-", stdin=text).out


@pytest.mark.parametrize(
    ("namespace", "reasons", "last"),
    [
        ("tenant-d", ["ClassNotFound", "LabelDrift"], "in 0 classes, 1 namespace, 0 pods, 3 nodes"),
        ("tenant-e", ["InvalidSpec"] * 2, "2 violations in 1 class, 1 namespace, 0 pods, 3 nodes"),
        ("tenant-g", [], "0 violations in 0 classes, 1 namespace, 0 pods, 3 nodes"),
    ],
)
def test_one_namespace_is_judged_with_its_class(
    namespace: str, reasons: list[str], last: str
) -> None:
    given = ("check", "-n", namespace, "-f", NODES, "-f", BAD_DAY)
    done = schedclass(*given)
    assert done.out.rstrip().endswith(last)
    violations = schedclass(*given, "-o", "json").document["violations"]
    told = [violation["finding"]["reason"] for violation in violations]
    assert [reason for reason in told if reason in reasons] == [r for r in reasons if r in told]
    assert (told[:1], done.code) == (reasons[:1], 1 if reasons else 0)


def test_the_class_of_one_namespace_that_matches_no_node_is_shown() -> None:
    nowhere = {**CLASS, "spec": {"nodeSelector": {"topology.kubernetes.io/region": "south"}}}
    other = {**CLASS, "metadata": {"name": "tenant-a"}, "spec": {"nodeSelector": {"a b": "c"}}}
    done = check(nowhere, other, NAMESPACE, arguments=("-n", "tenant-a"))
    assert [v["finding"]["reason"] for v in done.document["violations"]] == ["NoMatchingNodes"]
    assert done.document["summary"]["examined"]["classes"] == 1
    assert done.code == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("check",),
        ("tree",),
        ("usage", "dc-west"),
        ("simulate",),
        ("report", "-o", "-"),
    ],
    ids=" ".join,
)
def test_a_namespace_that_is_not_there_is_refused_with_the_nearest(
    arguments: tuple[str, ...],
) -> None:
    given = (*arguments, "-f", NODES, "-f", BAD_DAY)
    done = schedclass(*given, "-n", "tenat-a")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1] == (
        "error: there is no namespace tenat-a; did you mean tenant-a?"
    )
    assert schedclass(*given, "-n", "tenat-a", "-A").code in (0, 1)


def test_a_namespace_that_the_manifests_do_not_hold_is_not_called_clean() -> None:
    done = schedclass("check", "-n", "tenant-a", "-f", NODES, "-f", "-", stdin=manifests(CLASS))
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1] == (
        "error: namespace tenant-a cannot be seen: no namespaces among the manifests"
    )


def test_a_tree_of_a_class_that_is_not_there_is_refused_with_the_nearest() -> None:
    done = schedclass("tree", "--class", "dc-wset", "-f", NODES, "-f", BAD_DAY)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1] == (
        "error: there is no SchedulingClass dc-wset, and nobody asks for it; did you mean dc-west?"
    )
    assert schedclass("tree", "--class", "gone", "-f", NODES, "-f", BAD_DAY).code == 0


def test_a_tree_and_a_use_are_restricted_to_one_namespace() -> None:
    given = ("-f", NODES, "-f", BAD_DAY, "-n", "tenant-a-b", "-o", "json")
    rows = schedclass("tree", *given).document["namespaces"]
    assert [row["name"] for row in rows] == ["tenant-a-b"]
    used = schedclass("usage", "dc-west", *given).document["usage"]
    assert [use["namespace"] for use in used["uses"]] == ["tenant-a-b"]
    bare = schedclass("usage", "dc-west", "-f", NODES, "-f", BAD_DAY, "-n", "tenant-g")
    assert bare.out.splitlines()[-1] == "namespace tenant-g is not bound to it"
    done = schedclass("tree", "tenant-a", *given)
    assert (done.code, done.out) == (2, "")
    assert "tenant-a and -n tenant-a-b name two namespaces" in done.err


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("tree", "Only this one and what is below it"),
        ("check", "Only this one, its pods and its class; default: all."),
        ("explain", "default: the context's, or `default`."),
        ("usage", "Only the use by this one; default: all."),
    ],
)
def test_help_says_of_each_command_what_n_does(command: str, told: str) -> None:
    assert told in " ".join(schedclass(command, "--help").out.split())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("check", "-R"), "-R means nothing without -f"),
        (("tree", "--live"), "--live means nothing without -f"),
        (("check", "-f", NODES, "--context", "prod"), "--context means nothing with -f"),
        (("check", "-f", NODES, "--kubeconfig", "x"), "--kubeconfig means nothing with -f"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_option_that_would_be_ignored_is_refused(
    arguments: tuple[str, ...], sentence: str
) -> None:
    done = schedclass(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {sentence}")
    assert done.err.count("\n") == 1


EAST = {
    **CLASS,
    "metadata": {"name": "dc-east"},
    "spec": {"nodeSelector": {"topology.kubernetes.io/region": "east"}},
}


def pinned(name: str, names_class: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "tenant-a",
            "uid": f"uid-{name}",
            "annotations": {names.CLASS_KEY: names_class},
        },
        "spec": {"schedulerName": names.SCHEDULER_NAME, "nodeName": "node-1", **spec},
    }


def test_pods_that_name_another_class_than_their_namespace_are_one_note() -> None:
    older = [pinned(f"web-{number}", "dc-east") for number in range(3)]
    done = check(CLASS, EAST, NAMESPACE, *older, pinned("web-3", "dc-west"))
    assert found(done, "notes") == {
        (
            "ClassDiffers",
            '3 pods, such as web-0: the annotation names class "dc-east", while the namespace\'s '
            '"dc-west" counts',
        )
    }
    (note,) = done.document["notes"]
    assert note["subject"] == {"kind": "Namespace", "name": "tenant-a"}
    assert (done.code, found(done)) == (0, set())
    strict = check(CLASS, EAST, NAMESPACE, *older, arguments=("--strict",))
    assert strict.code == 1


@pytest.mark.parametrize(
    "pod",
    [
        pinned("right", "dc-west"),
        pinned("unpinned", "dc-east", schedulerName="default-scheduler"),
        {**(ended := pinned("ended", "dc-east")), "status": {"phase": "Succeeded"}},
        {**ended, "metadata": {**ended["metadata"], "uid": ""}},
    ],
    ids=["right", "not pinned at all", "ended", "not stored yet"],
)
def test_no_difference_of_class_is_told_where_there_is_none_to_mend(pod: dict[str, Any]) -> None:
    done = check(CLASS, EAST, NAMESPACE, pod)
    assert "ClassDiffers" not in {reason for reason, _ in found(done, "notes")}


def test_an_explained_pod_tells_that_it_names_another_class() -> None:
    given = ("-n", "tenant-a", "-f", NODES, "-f", "-")
    stdin = manifests(CLASS, EAST, NAMESPACE, pinned("web-0", "dc-east"))
    table = schedclass("explain", "pod", "web-0", *given, stdin=stdin)
    assert "ClassDiffers: metadata.annotations: the annotation names class" in table.out
    told = schedclass("explain", "pod", "web-0", *given, "-o", "json", stdin=stdin).document
    steps = told["explanation"]["steps"]
    reasons = [finding["reason"] for step in steps for finding in step["findings"]]
    assert "ClassDiffers" in reasons
    assert told["explanation"]["violations"] == []
