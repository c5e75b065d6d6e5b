"""What looks at pages sees a bad one: a walk that finds nothing has looked."""

from pathlib import Path

from playwright.sync_api import Browser

from tests.pages.browsers import PHONE, opened_window

BAD = """<!doctype html><html lang="en"><title>A bad page</title><main><h1>Bad</h1>
<p style="color: #aaa; background: #fff">hardly there</p>
<div style="width: 900px">wide</div><img src="https://elsewhere.invalid/picture.png">
<button style="outline: none">go</button><input type="search" id="find" aria-label="Find">
<script>alert("from a value"); console.error("wrong"); nowhere();</script></main></html>"""


def test_a_bad_page_is_seen_to_be_bad(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(BAD, encoding="utf-8")
    with opened_window(browser, page.as_uri(), size=PHONE) as window:
        window.open(page.as_uri())
        wide = window.wider_than_window()
        found = {line.split(":")[0] for line in window.violations("color-contrast", "image-alt")}
        stops = window.tab_stops()
    assert found == {"color-contrast", "image-alt"}
    assert wide[0] == "the page is 908 px wide"
    assert stops == ["button[submit] without an outline", "input[search]#find"]
    seen = {fault.partition(":")[0] for fault in window.faults}
    assert seen == {"console", "dialog", "exception", "request elsewhere"}
