"""Every name comes from the release, so that two copies never touch each other's objects."""

import pytest

from controlplane.paths import CHART
from crds import generate
from tests.chart.rendering import Chart, Object, Rendered


def identity(obj: Object) -> tuple[str, str, str]:
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace", ""), metadata["name"]


def test_two_releases_share_no_object_but_the_crd(chart: Chart) -> None:
    first = chart.render(release="one", namespace="ops")
    second = chart.render(release="two", namespace="ops")
    shared = {identity(obj) for obj in first} & {identity(obj) for obj in second}
    assert shared == {("CustomResourceDefinition", "", "schedulingclasses.cozystack.io")}


def test_the_second_release_can_leave_the_crd_to_the_first(chart: Chart) -> None:
    assert not chart.render({"crds": {"enabled": False}}).all("CustomResourceDefinition")


def test_one_release_makes_no_object_twice(chart: Chart) -> None:
    found = [identity(obj) for obj in chart.render({"networkPolicy": {"enabled": True}})]
    assert len(found) == len(set(found))


def test_the_names_are_those_the_processes_look_for(chart: Chart) -> None:
    rendered = chart.render(release="rel", namespace="ops")
    assert rendered.one("Deployment", "rel-schedclass-webhook")
    assert rendered.one("Deployment", "rel-schedclass-controller")
    assert rendered.one("Service", "rel-schedclass-webhook")
    assert rendered.one("MutatingWebhookConfiguration", "rel-schedclass")
    assert rendered.one("ValidatingWebhookConfiguration", "rel-schedclass")
    assert rendered.one("ValidatingAdmissionPolicy", "rel-schedclass-class-deletion")


def test_a_release_named_like_the_chart_is_not_named_twice(chart: Chart) -> None:
    assert chart.render(release="schedclass").one("Deployment", "schedclass-webhook")


def test_a_full_name_can_be_given(chart: Chart) -> None:
    rendered = chart.render({"fullnameOverride": "pins"})
    assert rendered.one("Deployment", "pins-webhook")
    assert not [o for o in rendered if "rel-" in o["metadata"]["name"]]


@pytest.mark.parametrize("name", ["y", "on", "null", "123", "1e3", "0x1f", "no"])
def test_a_release_and_a_namespace_may_be_named_like_a_yaml_keyword(
    chart: Chart, name: str
) -> None:
    rendered = chart.render({"fullnameOverride": name}, release=name, namespace=name)
    for value in strings_that_must_be(rendered):
        assert isinstance(value, str)


def strings_that_must_be(rendered: Rendered) -> list[object]:
    found: list[object] = []
    for obj in rendered:
        metadata = obj["metadata"]
        found += [metadata["name"], *metadata.get("labels", {}).values()]
        found += [metadata[key] for key in ("namespace",) if key in metadata]
        found += [v for s in obj.get("subjects", ()) for v in s.values()]
        found += [n for rule in obj.get("rules", ()) for n in rule.get("resourceNames", ())]
    for spec in rendered.pod_specs().values():
        found += [spec["serviceAccountName"], spec["priorityClassName"]]
        entries = [entry for c in spec["containers"] for entry in c.get("env", ())]
        found += [entry["value"] for entry in entries if "value" in entry]
    return found


def test_the_longest_release_name_gives_valid_names(chart: Chart) -> None:
    for obj in chart.render(release="r" * 53):
        assert len(obj["metadata"]["name"]) <= 63


def test_selectors_do_not_move_with_version_or_values(chart: Chart) -> None:
    plain = chart.render()
    changed = chart.render(
        {"podLabels": {"team": "a", "app.kubernetes.io/version": "9"}, "image": "x:2"}
    )
    for role in ("webhook", "controller"):
        name = f"rel-schedclass-{role}"
        selector = plain.one("Deployment", name)["spec"]["selector"]
        assert selector == changed.one("Deployment", name)["spec"]["selector"]
        assert selector["matchLabels"] == {
            "app.kubernetes.io/name": "schedclass",
            "app.kubernetes.io/instance": "rel",
            "app.kubernetes.io/component": role,
        }


@pytest.mark.parametrize("kind", ["Service", "PodDisruptionBudget", "NetworkPolicy", "Deployment"])
def test_what_selects_pods_selects_the_pods_of_its_role(chart: Chart, kind: str) -> None:
    values = {
        "networkPolicy": {"enabled": True},
        # Labels that nobody may break the selectors with.
        "podLabels": {"app.kubernetes.io/component": "other"},
    }
    rendered = chart.render(values)
    for obj in rendered.all(kind):
        spec = obj["spec"]
        selector = spec.get("podSelector") or spec["selector"]
        labels = selector.get("matchLabels", selector)
        template = rendered.one("Deployment", obj["metadata"]["name"])["spec"]["template"]
        assert labels.items() <= template["metadata"]["labels"].items()


def test_the_installed_crd_is_the_published_one(chart: Chart) -> None:
    installed = chart.render().one("CustomResourceDefinition", "schedulingclasses.cozystack.io")
    assert installed["spec"] == generate.custom_resource_definition()["spec"]


def test_both_crd_files_are_written_from_their_source() -> None:
    assert generate.main(["--check"]) == 0
    assert {t.parent.name for t in generate.TARGETS} == {"crds", "files"}
    assert generate.TARGETS[1].is_relative_to(CHART)


def test_the_crd_outlives_the_release_unless_told_otherwise(chart: Chart) -> None:
    name = "schedulingclasses.cozystack.io"
    kept = chart.render().one("CustomResourceDefinition", name)
    assert kept["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    gone = chart.render({"crds": {"keep": False}}).one("CustomResourceDefinition", name)
    assert "annotations" not in gone["metadata"]


def test_every_object_says_what_it_belongs_to(chart: Chart) -> None:
    for obj in chart.render({"networkPolicy": {"enabled": True}}):
        labels = obj["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == "rel"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
