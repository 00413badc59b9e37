"""A real browser that opens real reports, and watches that they ask for nothing."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.chromium import find
from tests.unit.cli.running import NODES, SCENARIOS, schedclass

expect.set_options(timeout=60_000)  # a busy machine; what is right is right at once

Scheme = Literal["light", "dark"]

WIDE, NARROW, NARROWEST = (1280, 900), (375, 800), (320, 700)
TENANTS = str(SCENARIOS.parent / "snapshots" / "bad-day.yaml")


@dataclass
class Seen:
    """An open page, and what happened while it was open."""

    page: Page
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def watch(self) -> None:
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", self._dismiss)

    def _dismiss(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()


Opener = Callable[..., Page]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    program = find()
    assert program is not None, "there is no browser; `make browser` finds or installs one"
    # Chromium's own sandbox refuses to be run by root.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def bad_day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on the manifests of the documentation."""
    path = tmp_path_factory.mktemp("report") / "bad-day.html"
    done = schedclass("report", "-o", path, "-f", NODES, "-f", TENANTS)
    assert done.code == 0, done.err
    return path


@contextmanager
def opened(
    browser: Browser,
    path: Path,
    scheme: Scheme = "light",
    size: tuple[int, int] = WIDE,
    **options: Any,
) -> Iterator[Seen]:
    """A page that is open for the time of the block."""
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": size[0], "height": size[1]}, **options
    )
    try:
        seen = Seen(context.new_page())
        seen.watch()
        seen.page.goto(path.as_uri())
        yield seen
    finally:
        context.close()


@pytest.fixture
def look(chromium: Browser) -> Iterator[Opener]:
    """Opens reports; afterwards nothing may have been said on the console or asked of anyone."""
    told: list[tuple[Path, Seen]] = []
    with ExitStack() as pages:

        def open_page(path: Path, scheme: Scheme = "light", size: tuple[int, int] = WIDE) -> Page:
            seen = pages.enter_context(opened(chromium, path, scheme, size))
            told.append((path, seen))
            return seen.page

        yield open_page
    for path, seen in told:
        assert seen.messages == []
        assert seen.dialogs == []
        assert seen.requests == [path.as_uri()]
