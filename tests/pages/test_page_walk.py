"""Every page, in a real browser, with hostile values in every field that anybody can write.

Nothing runs, nothing is asked for elsewhere, axe-core finds nothing by day and by night, and a
phone and a sheet of paper show each page without moving it sideways. Other pages than a
certificate's, and the night, axe-core sees in the soak.
"""

import pytest
from playwright.sync_api import Browser, ViewportSize

from tests.pages.browsers import DESK, PHONE, Window, opened_window, require_browser
from tests.pages.page_stage import EPISODES, HOSTILE, PageStage

WIDTHS: tuple[ViewportSize, ...] = (PHONE, {"width": 390, "height": 844})
PAPER: ViewportSize = {"width": 794, "height": 1123}
"""A4 at 96 dots an inch."""


def test_every_page_is_quiet_and_fits_a_phone(stage: PageStage, browser: Browser) -> None:
    seen = {}
    with opened_window(browser, stage.origin) as window:
        for name, path in stage.pages.items():
            seen[name] = looked_at(window, f"{stage.origin}{path}")
            seen[name] += window.violations() if name == "certificate" else []
        # One name without an end moves no other column out of sight.
        window.open(f"{stage.origin}/")
        cell = window.page.locator(".table td").nth(1)
        width = cell.evaluate("one => (one.textContent = 'x'.repeat(80), one.offsetWidth)")
        assert width < PHONE["width"] / 2
    with opened_window(browser, stage.hostile.as_uri()) as window:
        seen["report"] = looked_at(window, stage.hostile.as_uri())
    assert {name: faults for name, faults in seen.items() if faults} == {}


def test_every_page_is_legible_by_day_by_night_and_on_paper(
    stage: PageStage, browser: Browser
) -> None:
    seen = {}
    with opened_window(browser, stage.origin) as window:
        for name, path in stage.pages.items():
            seen[name] = read_closely(window, f"{stage.origin}{path}")
    for report in (stage.report, stage.hostile):
        with opened_window(browser, report.as_uri()) as window:
            seen[report.name] = read_closely(window, report.as_uri())
    assert {name: faults for name, faults in seen.items() if faults} == {}


def test_a_report_shows_hostile_values_as_text_and_is_used_with_keys(
    stage: PageStage, browser: Browser
) -> None:
    with opened_window(browser, stage.report.as_uri()) as window:
        window.open(stage.report.as_uri())
        words = window.page.locator("main").text_content() or ""
        stops = window.tab_stops()
        window.page.locator("#search").fill("sum-3")
        left = window.page.locator("#episode-list > li:visible").count()
    assert all(text in words for text in HOSTILE[:4])
    assert stops[0].startswith("a")
    assert "input[search]#search" in stops
    assert stops.count("summary") == EPISODES + 1
    assert not [stop for stop in stops if "without an outline" in stop]
    assert left == 1


def test_without_a_browser_tests_say_so_and_fail_where_one_is_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ECHELON_BROWSER", "/nonexistent")
    monkeypatch.delenv("ECHELON_BROWSER_REQUIRED", raising=False)
    with pytest.raises(pytest.skip.Exception, match="expected a Chromium for the tests of pages"):
        require_browser()
    monkeypatch.setenv("ECHELON_BROWSER_REQUIRED", "1")
    with pytest.raises(pytest.fail.Exception, match="expected a Chromium for the tests of pages"):
        require_browser()


def looked_at(window: Window, address: str) -> list[str]:
    """Return what is wrong with a page at first sight, and what its policy lets in."""
    window.faults.clear()
    window.page.set_viewport_size(DESK)
    window.open(address)
    found = window.planted()
    for size in WIDTHS:
        window.page.set_viewport_size(size)
        found += window.wider_than_window()
    found += [f"the policy lets in {one}" for one in window.lets_in()]
    return window.faults + found


def read_closely(window: Window, address: str) -> list[str]:
    """Return what axe-core finds by day and by night, and what is wrong on paper."""
    window.faults.clear()
    window.page.set_viewport_size(DESK)
    window.show("light")
    window.open(address)
    found = window.violations()
    window.show("dark")
    found += window.violations("color-contrast")
    window.page.set_viewport_size(PAPER)
    window.page.emulate_media(media="print")
    found += window.wider_than_window()
    # What is pressed or followed has no use on paper.
    found += window.page.locator(".no-print:visible, nav:visible").all_text_contents()
    window.page.emulate_media(media="screen")
    return window.faults + found
