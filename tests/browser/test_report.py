"""The report in a real browser: what it asks for, how it is used, what a screen reader gets."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect

from schedclass.domain import names
from tests.browser.conftest import NARROW, NARROWEST, WIDE, Opener, Scheme, opened
from tests.unit.cli.running import schedclass

UNFOLD = "for (const details of document.querySelectorAll('details')) details.open = true"

PAINTED = """height => new Promise(done => {
  const look = () => requestAnimationFrame(innerHeight === height ? done : look)
  look()
})"""
"""Resolves once the window has that height and was drawn: a new size takes some frames."""

Json = dict[str, Any]


def namespace(name: str, class_name: str = "") -> Json:
    labels = {names.CLASS_KEY: class_name} if class_name else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def scheduling_class(name: str, **selector: str) -> Json:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name},
        "spec": {"nodeSelector": selector},
    }


def node(name: str, **labels: str) -> Json:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": ready}


def report_on(folder: Path, *objects: Json) -> Path:
    source, page = folder / "objects.json", folder / "page.html"
    source.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    done = schedclass("report", "-o", page, "-f", source)
    assert done.code == 0, done.err
    return page


@pytest.fixture(scope="session")
def five_hundred(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """500 tenants of five classes, each tenth with a tenant below it that wishes for another."""
    objects = [scheduling_class(f"class-{i}", pool=str(i)) for i in range(5)]
    objects += [node(f"node-{i}", pool=str(i)) for i in range(5)]
    for i in range(500):
        objects.append(namespace(f"tenant-t{i:03}", f"class-{i % 5}"))
        if i % 10 == 0:
            objects.append(namespace(f"tenant-t{i:03}-below", "class-4"))
    return report_on(tmp_path_factory.mktemp("many"), namespace("tenant-root"), *objects)


def filter_of(page: Page, what: str) -> Locator:
    return page.get_by_role("search", name=f"Filter {what}")


def shown(page: Page, name: str) -> Locator:
    return page.locator("#tenant-list .name", has_text=name).filter(visible=True)


@pytest.mark.parametrize("size", [WIDE, NARROW, NARROWEST], ids=str)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_quietly_and_fits_its_window(
    look: Opener, bad_day: Path, scheme: Scheme, size: tuple[int, int]
) -> None:
    page = look(bad_day, scheme, size)
    expect(page).to_have_title(re.compile("^Scheduling classes of manifests: "))
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)"}[scheme]
    page.evaluate(UNFOLD)
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= size[0], "nobody should have to scroll sideways"


def test_the_longest_names_are_broken_rather_than_the_page(look: Opener, tmp_path: Path) -> None:
    long, zone = "n" * 253, {"topology.kubernetes.io/zone": "z" * 63}
    members = (namespace(long, long), namespace("m" * 253, "c" * 253), scheduling_class(long))
    page = look(report_on(tmp_path, *members, node("h" * 253, **zone)), size=NARROWEST)
    page.evaluate(UNFOLD)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROWEST[0]


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=str)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_against_it(
    look: Opener, bad_day: Path, scheme: Scheme, size: tuple[int, int]
) -> None:
    page = look(bad_day, scheme, size)
    page.evaluate(UNFOLD)
    height = page.evaluate("document.documentElement.scrollHeight")
    page.set_viewport_size({"width": size[0], "height": height})  # contrast is judged in sight
    page.evaluate(PAINTED, height)
    found = Axe().run(page, options={"resultTypes": ["violations", "incomplete", "passes"]})
    assert found.violations_count == 0, found.generate_report()
    judged = {rule["id"] for rule in found.response["passes"]}
    unsure = {rule["id"]: rule["nodes"] for rule in found.response["incomplete"]}
    assert "color-contrast" in judged
    assert unsure.get("color-contrast", []) == []
    assert judged >= {"bypass", "heading-order", "label", "landmark-one-main", "list", "region"}


def test_axe_finds_nothing_against_folds_and_gaps_either(look: Opener, tmp_path: Path) -> None:
    """What the other page has none of: tenants alike, no violations, parts that are not known."""
    tenants = [namespace(f"tenant-a-{i}") for i in range(12)]
    page = look(report_on(tmp_path, namespace("tenant-a", "plain"), *tenants))
    page.evaluate(UNFOLD)
    expect(page.get_by_text("12 namespaces alike")).to_be_visible()
    expect(page.get_by_text("Everything is as the classes want it, as far")).to_be_visible()
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_a_screen_reader_is_given_landmarks_headings_and_words_for_every_mark(
    look: Opener, bad_day: Path
) -> None:
    page = look(bad_day)
    for landmark in (
        page.get_by_role("banner"),
        page.get_by_role("main"),
        page.get_by_role("contentinfo"),
    ):
        expect(landmark).to_have_count(1)
    expect(page.get_by_role("navigation", name="On this page")).to_be_visible()
    for title in ("Tenants", "Classes and what they reach", "Nodes by zone", "Violations"):
        region = page.get_by_role("region", name=title, exact=True)
        expect(region.get_by_role("heading", level=2, name=title)).to_be_visible()
    expect(page.locator("#tenant-list")).to_match_aria_snapshot(
        """
        - list:
          - listitem:
            - group:
              - text: tenant-root no class 8 below, 5 with trouble
              - list:
                - listitem:
                  - group:
                    - text: /tenant-a dc-west set here 3 pods 1 waits 1 pod breaks it/
                    - list:
                      - listitem: >-
                          tenant-a-b dc-west inherited from tenant-a
                          wish for dc-east overridden 1 pod 1 pod breaks it
                      - listitem: tenant-a-c dc-west inherited from tenant-a
                - listitem: tenant-c apart set here 4 pods 4 pods break it
                - listitem: tenant-d gone set here ClassNotFound
        """
    )


def test_it_is_used_by_keyboard_alone(look: Opener, bad_day: Path) -> None:
    page = look(bad_day)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    box = filter_of(page, "tenants").get_by_role("searchbox")
    expect(box).to_be_focused()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"

    page.keyboard.type("DC-west inherited")
    expect(filter_of(page, "tenants").get_by_role("status")).to_have_text("2 of 9 found")
    expect(shown(page, "tenant-a-b")).to_have_count(1)
    expect(shown(page, "tenant-c")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(shown(page, "tenant-c")).to_have_count(1)

    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    expect(filter_of(page, "tenants").get_by_role("status")).to_have_text("5 of 9 found")
    expect(shown(page, "tenant-f")).to_have_count(0)
    page.keyboard.press("Space")
    expect(shown(page, "tenant-f")).to_have_count(1)

    for _ in ("unfold all", "fold all", "tenant-root", "tenant-a"):
        page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(shown(page, "tenant-a-b")).to_have_count(0)
    page.keyboard.press("Space")
    expect(shown(page, "tenant-a-b")).to_have_count(1)


def test_a_filter_looks_into_folds_and_leaves_them_as_they_were(
    look: Opener, five_hundred: Path
) -> None:
    page = look(five_hundred)
    expect(shown(page, "tenant-t")).to_have_count(50)  # those with others below them
    box = filter_of(page, "tenants").get_by_role("searchbox")
    box.fill("tenant-t123")
    expect(filter_of(page, "tenants").get_by_role("status")).to_have_text("1 of 551 found")
    expect(shown(page, "tenant-t")).to_have_count(1)
    box.fill("")
    expect(filter_of(page, "tenants").get_by_role("status")).to_be_empty()
    expect(shown(page, "tenant-t")).to_have_count(50)
    filter_of(page, "tenants").get_by_role("button", name="Unfold all", exact=True).click()
    expect(shown(page, "tenant-t")).to_have_count(550)
    filter_of(page, "tenants").get_by_role("button", name="Fold all", exact=True).click()
    expect(shown(page, "tenant-t")).to_have_count(0)


def test_five_hundred_tenants_start_as_a_list_that_can_be_read(
    look: Opener, five_hundred: Path
) -> None:
    page = look(five_hundred, "dark", NARROW)
    folds = page.locator("#tenant-list summary", has_text="namespaces alike")
    expect(folds).to_have_count(5)  # a class each; who has others below lies in none
    expect(folds.filter(has_text="100 namespaces alike")).to_have_count(4)
    expect(folds.filter(has_text="50 namespaces alike")).to_have_text(re.compile("class-0"))


def test_ten_thousand_namespaces_can_be_opened_and_searched(look: Opener, tmp_path: Path) -> None:
    objects = [namespace(f"tenant-{i}", "wide" if i < 100 else "") for i in range(100)]
    objects += [namespace(f"tenant-{i % 100}-{i}") for i in range(100, 10_000)]
    page = look(report_on(tmp_path, scheduling_class("wide", a="b"), *objects))
    assert (tmp_path / "page.html").stat().st_size < 6_000_000
    filter_of(page, "tenants").get_by_role("searchbox").fill("tenant-42-9942")
    expect(filter_of(page, "tenants").get_by_role("status")).to_have_text("1 of 10000 found")
    expect(shown(page, "tenant-42-9942")).to_have_count(1)


def test_nodes_and_violations_are_found_by_what_they_lie_under(look: Opener, bad_day: Path) -> None:
    page = look(bad_day)
    filter_of(page, "nodes").get_by_role("searchbox").fill("region east")
    expect(filter_of(page, "nodes").get_by_role("status")).to_have_text("1 of 3 found")
    cards = page.locator("#node-list h4").filter(visible=True)
    expect(cards).to_have_text(["node-3"])
    filter_of(page, "violations").get_by_role("searchbox").fill("unevenly apart queue-1")
    expect(filter_of(page, "violations").get_by_role("status")).to_have_text("1 of 12 found")


EVIL = (
    "<script>alert('name')</script>",
    "</script><script>alert('end')</script>",
    "</style><img src=x onerror=alert('image')>",
    "'\"><svg onload=alert('svg')>",
    "<a href=javascript:alert(1)>",
)


def test_hostile_names_are_text_and_nothing_else(look: Opener, tmp_path: Path) -> None:
    objects = []
    for evil in EVIL:
        labels = {"topology.kubernetes.io/zone": evil, "topology.kubernetes.io/region": evil}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": evil, "namespace": evil, "uid": evil},
            "spec": {"schedulerName": evil, "nodeName": evil, "containers": []},
        }
        invalid = scheduling_class(f"invalid {evil}", **{evil: evil})
        objects += [namespace(evil, evil), scheduling_class(evil, zone=evil), invalid]
        objects += [node(evil, **labels), pod]
    page = look(report_on(tmp_path, *objects))
    page.evaluate(UNFOLD)
    filter_of(page, "tenants").get_by_role("searchbox").fill(EVIL[0])
    expect(shown(page, EVIL[0])).to_have_count(1)
    assert page.evaluate("document.scripts.length") == 1
    assert page.locator("img, iframe, object, embed, form, base, [onload], [onerror]").count() == 0
    hrefs = page.eval_on_selector_all("[href]", "found => found.map(e => e.getAttribute('href'))")
    assert {href[0] for href in hrefs} == {"#", "d"}


@pytest.mark.parametrize(
    "attempt",
    [
        "document.body.append("
        "Object.assign(document.createElement('script'), {text: 'owned = 1'}))",
        "document.body.setAttribute('onclick', 'owned = 1'); document.body.click()",
        "document.body.insertAdjacentHTML('beforeend', '<p style=\"color: red\">')",
        "fetch('data:,').then(() => { owned = 1 }, () => {})",
        "document.body.append(Object.assign(new Image(), {src: 'https://example.invalid/'}))",
    ],
)
def test_what_would_get_in_all_the_same_is_stopped_by_the_policy(
    chromium: Browser, bad_day: Path, attempt: str
) -> None:
    with opened(chromium, bad_day) as seen:
        with seen.page.expect_console_message(lambda m: "Content Security Policy" in m.text):
            seen.page.evaluate(attempt)
        assert seen.page.evaluate("typeof owned") == "undefined"


def test_printing_unfolds_everything_and_folds_it_again(look: Opener, bad_day: Path) -> None:
    page = look(bad_day, "dark")
    closed = "document.querySelectorAll('details:not([open])').length"
    before = page.evaluate(closed)
    assert before > 0
    page.evaluate(f"addEventListener('beforeprint', () => {{ printed = {closed} }})")
    assert page.pdf().startswith(b"%PDF")
    assert page.evaluate("printed") == 0
    assert page.evaluate(closed) == before
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    expect(filter_of(page, "tenants")).to_be_hidden()


def test_without_scripts_the_page_is_whole_and_folds(chromium: Browser, bad_day: Path) -> None:
    with opened(chromium, bad_day, java_script_enabled=False) as seen:
        page = seen.page
        expect(filter_of(page, "tenants")).to_be_hidden()
        expect(shown(page, "tenant-a-b")).to_have_count(1)
        page.locator("summary", has_text="tenant-a").last.click()
        expect(shown(page, "tenant-a-b")).to_have_count(0)
