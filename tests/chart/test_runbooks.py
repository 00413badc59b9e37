"""The pages on alerts name only what is there, and lead to a promtool that is."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from controlplane.paths import CHART, REPOSITORY
from schedclass.cli.main import app
from schedclass.domain.findings import Reason
from tests.chart import promtool
from tests.chart.rendering import Chart

RUNBOOKS = REPOSITORY / "docs" / "runbooks"
PAGES = sorted(RUNBOOKS.glob("*.md"))
MADE_BY_THE_OPERATOR = {"schedclass-webhook-tls"}


def text() -> str:
    return "\n".join(page.read_text("utf-8") for page in PAGES)


def test_the_objects_are_those_of_the_chart(chart: Chart) -> None:
    values = {"certManager": {"enabled": True}, "serviceMonitor": {"enabled": True}}
    rendered = chart.render(values, release="schedclass", namespace="cozy-schedclass")
    known = {obj["metadata"]["name"] for obj in rendered} | MADE_BY_THE_OPERATOR
    known |= {rule for role in rendered.all("Role") for rule in named(role)}
    found = set(re.findall(r"\bschedclass-[a-z-]+\b", text()))
    assert "schedclass-controller" in found
    assert found <= known
    assert re.findall(r"get lease (\S+) ", text())
    assert set(re.findall(r"get lease (\S+) ", text())) <= known
    containers = {c["name"] for pod in rendered.pod_specs().values() for c in pod["containers"]}
    assert set(re.findall(r"(?<=-c )[a-z-]+", text())) <= containers


def named(role: dict[str, Any]) -> list[str]:
    return [name for rule in role["rules"] for name in rule.get("resourceNames", [])]


def test_the_values_are_those_of_the_chart() -> None:
    values: Any = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    roots = "|".join(sorted(values))
    found = set(re.findall(rf"(?:`|--set )((?:{roots})(?:\.\w+)+)", text()))
    assert len(found) > 5
    for path in found:
        at = values
        for key in path.split("."):
            assert key in at, path
            at = at[key]


def test_the_commands_are_those_of_the_command_line() -> None:
    commands = typer.main.get_group(app).commands
    found = set(re.findall(r"kubectl schedclass (\w+)", text()))
    assert found
    assert found <= set(commands)


def test_the_reasons_are_those_of_the_operator(chart: Chart) -> None:
    known = {reason.value for reason in Reason} | {page.stem for page in PAGES}
    found = set(re.findall(r"(?:`|reason=)([A-Z][a-z]+(?:[A-Z][a-z]+)+)\b", text()))
    assert "NoMatchingNodes" in found
    assert found <= known | {"SchedulerAvailable", "FailedScheduling"}  # a condition; not ours


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)", page.read_text("utf-8")):
        assert (page.parent / link).is_file(), link


def test_a_promtool_that_is_named_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(promtool.VARIABLE, "true")
    assert str(promtool.ensure()) == shutil.which("true")


def test_a_name_that_is_no_program_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(promtool.VARIABLE, "/nowhere/promtool")
    with pytest.raises(promtool.NoPromtool, match="/nowhere/promtool, which is no program"):
        promtool.ensure()


def test_without_a_package_manager_the_way_out_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(promtool.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(promtool.NoPromtool, match=f"{promtool.VARIABLE}=/path/to/it"):
        promtool.ensure()
