"""Every page, in a real browser, with hostile values in every field that anybody can write.

Nothing runs, nothing is asked for elsewhere, axe-core finds nothing by day and by night, and a
phone shows each page without moving it sideways.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.backend.databases import Database
from tests.backend.test_theatre_bridge import bundle_of
from tests.pages.browsers import DESK, PHONE, Window, opened_window
from tests.pages.page_stage import HOSTILE, PageStage, page_stage
from theatre.cli.report_command import write_report

EPISODES = 14


@pytest.fixture(scope="module")
def stage(
    module_database: Database, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PageStage]:
    folder = tmp_path_factory.mktemp("pages")
    with page_stage(module_database, folder, hostile=True, episodes=EPISODES) as stage:
        yield stage


@pytest.fixture(scope="module")
def report(stage: PageStage, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(str(bundle_of(stage.home, stage.theatre)), path)
    return path


def test_every_page_is_quiet_legible_and_fits_a_phone(
    stage: PageStage, report: Path, browser: Browser
) -> None:
    seen = {}
    with opened_window(browser, stage.origin) as window:
        for name, path in stage.pages.items():
            seen[name] = looked_at(window, f"{stage.origin}{path}")
    with opened_window(browser, report.as_uri()) as window:
        seen["report"] = looked_at(window, report.as_uri())
    assert {name: faults for name, faults in seen.items() if faults} == {}


def test_a_report_shows_hostile_values_as_text_and_is_used_with_keys(
    report: Path, browser: Browser
) -> None:
    with opened_window(browser, report.as_uri()) as window:
        window.open(report.as_uri())
        words = window.page.locator("main").text_content() or ""
        stops = window.tab_stops()
        window.page.locator("#search").fill("sum-3")
        left = window.page.locator("#episode-list > li:visible").count()
        window.page.emulate_media(media="print")
        printed = window.page.locator(".no-print:visible, nav:visible").count()
    assert all(text in words for text in HOSTILE[:4])
    assert stops[0].startswith("a")
    assert "input[search]#search" in stops
    assert stops.count("summary") == EPISODES + 1
    assert not [stop for stop in stops if "without an outline" in stop]
    assert (left, printed) == (1, 0)


def looked_at(window: Window, address: str) -> list[str]:
    """Return what is wrong with a page: by day, by night, on a phone."""
    window.faults.clear()
    window.show("light")
    window.open(address)
    found = window.violations()
    window.show("dark")
    found += window.violations("color-contrast")
    window.page.set_viewport_size(PHONE)
    found += window.wider_than_window()
    window.page.set_viewport_size(DESK)
    return window.faults + found
