"""The machine's own Chromium, driven by Playwright, and what a page must not do in it."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    CDPSession,
    Dialog,
    Page,
    ViewportSize,
    sync_playwright,
)

Scheme = Literal["light", "dark"]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WANTED = (
    "expected a Chromium for the tests of pages: install Debian's package `chromium`, or name a"
    " Chromium or Chrome in ECHELON_BROWSER"
)
PHONE: ViewportSize = {"width": 360, "height": 740}
DESK: ViewportSize = {"width": 1100, "height": 900}
# Playwright's own list turns off what a browser asks of its maker. No name has an address here.
ARGUMENTS = ("--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")

# What axe finds, each as one line; a whole result is a megabyte of JSON. A layout has settled
# only when fonts have.
_AXE = """async ([rules, contrast]) => {
  await document.fonts.ready;
  const run = rules.length ? {runOnly: {type: "rule", values: rules}}
    : {rules: {"color-contrast": {enabled: contrast}}};
  const found = await axe.run(document, {resultTypes: ["violations"], ...run});
  return found.violations.flatMap(one => one.nodes.map(node =>
    `${one.id}: ${node.target.join(" ")}: ${node.failureSummary.replace(/\\s+/g, " ")}`));
}"""
# What a reader would have to move sideways for: elements that end right of the window, but for
# those inside a box that scrolls by itself.
_WIDER = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  const scrolls = one => one && (["auto", "scroll", "hidden", "clip"].includes(
    getComputedStyle(one).overflowX) || scrolls(one.parentElement));
  const wide = [...document.body.querySelectorAll("*")].filter(one =>
    one.getBoundingClientRect().right > width + 1 && !scrolls(one.parentElement));
  return [`the page is ${document.documentElement.scrollWidth} px wide`].concat(
    wide.slice(0, 5).map(one => one.outerHTML.slice(0, 120)));
}"""
# A value that became an element, or ran: each that is planted anywhere would leave one of these.
_PLANTED = """() => [...document.querySelectorAll(
    "#planted, main script, main iframe, main img[src=x], [onerror], [onload], [onmouseover]")]
  .map(one => one.outerHTML.slice(0, 120)).concat("planted" in globalThis ? ["it ran"] : [])"""
# What an element would do that got into the page all the same: the policy is the second wall.
_INTRUDE = """async () => {
  const through = [];
  const script = document.createElement("script");
  script.textContent = "globalThis.intruded = 1";
  const link = document.createElement("a");
  link.setAttribute("onclick", "globalThis.intruded = 2");
  document.body.append(script, link);
  link.click();
  if ("intruded" in globalThis) through.push("a script");
  const picture = new Image();
  const loaded = new Promise(done => {
    picture.addEventListener("error", () => done(false));
    picture.addEventListener("load", () => done(true));
  });
  const refused = new Promise(done =>
    document.addEventListener("securitypolicyviolation", event =>
      event.effectiveDirective === "img-src" && done(true)));
  picture.src = "https://elsewhere.invalid/picture.png";
  if (!await Promise.race([refused, loaded])) through.push("a picture from elsewhere");
  script.remove();
  link.remove();
  return through;
}"""
_FOCUSED = """() => {
  const one = document.activeElement;
  if (!one || one === document.body) return "";
  const drawn = getComputedStyle(one);
  const seen = drawn.outlineStyle !== "none" && parseFloat(drawn.outlineWidth) > 0;
  const kind = one.tagName.toLowerCase() + (one.type ? `[${one.type}]` : "");
  return kind + (one.id ? `#${one.id}` : "") + (seen ? "" : " without an outline");
}"""


def find_browser() -> str | None:
    """Return the path of a Chromium of this machine; None where there is none."""
    named = os.environ.get("ECHELON_BROWSER")
    found = (shutil.which(name) for name in ((named,) if named else NAMES))
    return next((path for path in found if path is not None), None)


def require_browser() -> str:
    """Return the path of a Chromium; without one the test is skipped, and in CI it fails."""
    path = find_browser()
    if path is None and os.environ.get("ECHELON_BROWSER_REQUIRED"):
        pytest.fail(WANTED, pytrace=False)
    return path if path is not None else pytest.skip(WANTED)


@contextlib.contextmanager
def started_browser() -> Iterator[Browser]:
    """Start a Chromium without a window; it ends with the block.

    Playwright keeps an event loop in this thread until then: no test that runs one may come
    between, so a browser lives as long as one module's tests.
    """
    path = require_browser()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path,
            args=ARGUMENTS,
            # Chromium refuses to isolate itself where it runs as root.
            chromium_sandbox=os.geteuid() != 0,
        )
        with contextlib.closing(browser):
            yield browser


@dataclass  # without slots: Playwright keeps what listens as an attribute of the object
class Window:
    """One page of a browser, and everything that it did which a page must not do."""

    page: Page
    origin: str
    """All that it may load begins with it."""
    faults: list[str] = field(default_factory=list)
    _devtools: CDPSession | None = None

    def __post_init__(self) -> None:
        self.page.on("console", lambda said: self._note(said.type, said.text))
        self.page.on("pageerror", lambda error: self.faults.append(f"exception: {error}"))
        self.page.on("dialog", self._dismiss)
        self.page.on("popup", lambda other: self.faults.append(f"window: {other.url}"))
        self.page.on("download", lambda one: self.faults.append(f"download: {one.url}"))
        self.page.on("request", lambda one: self._look_at(one.url))

    def _note(self, kind: str, text: str) -> None:
        # Whatever a policy refuses is said here as an error, too.
        if kind in {"error", "warning"}:
            self.faults.append(f"console: {text}")

    def _dismiss(self, dialog: Dialog) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _look_at(self, url: str) -> None:
        if not url.startswith((self.origin, "data:", "blob:")):
            self.faults.append(f"request elsewhere: {url}")

    def open(self, address: str) -> None:
        """Load a page of the origin, with all that it asks for."""
        answer = self.page.goto(address, wait_until="load")
        if answer is not None and not answer.ok and answer.status:
            self.faults.append(f"answer {answer.status} at {address}")

    def show(self, scheme: Scheme) -> None:
        """Show the page by day or by night."""
        self.page.emulate_media(color_scheme=scheme)

    def violations(self, *rules: str, contrast: bool = True) -> list[str]:
        """Return what axe-core finds, by all of its rules or by those that are named.

        Without `contrast`, which is most of its work, colours are not looked at.
        """
        if self.page.evaluate("typeof axe") == "undefined":
            # Not as a script element: the page's policy allows no script but its own.
            self.page.evaluate(_axe_source())
        return list(self.page.evaluate(_AXE, [rules, contrast]))

    def wider_than_window(self) -> list[str]:
        """Return what makes the page wider than its window, if anything does."""
        return list(self.page.evaluate(_WIDER))

    def planted(self) -> list[str]:
        """Return what a hostile value has become that is no text."""
        return list(self.page.evaluate(_PLANTED))

    def lets_in(self) -> list[str]:
        """Return what the policy lets an element of a stranger do; its refusals are no fault."""
        before = len(self.faults)
        through = list(self.page.evaluate(_INTRUDE))
        del self.faults[before:]
        return through

    def drop(self, *paths: Path) -> None:
        """Drop files or folders of this machine on the part of the page that verifies."""
        if self._devtools is None:
            self._devtools = self.page.context.new_cdp_session(self.page)
        place = self.page.locator("#verification h2")
        place.scroll_into_view_if_needed()
        box = place.bounding_box()
        assert box is not None
        data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
        at = {"x": box["x"] + 5, "y": box["y"] + 5, "data": data}
        for kind in ("dragEnter", "dragOver", "drop"):
            self._devtools.send("Input.dispatchDragEvent", {"type": kind, **at})

    def verified(self) -> tuple[str, dict[str, tuple[str, str]]]:
        """Wait for a verification; return how its verdict looks, status and words by line."""
        status = self.page.locator("#verification [role=status].verdict")
        status.wait_for()
        lines = self.page.locator("#verification li[data-id]").evaluate_all(
            "all => all.map(one => [one.dataset.id, one.className, one.textContent])"
        )
        shown = {name: (how, words) for name, how, words in lines}
        return (status.get_attribute("class") or "").removeprefix("verdict "), shown

    def tab_to(self, selector: str, most: int = 80) -> None:
        """Press the tab key until what it reaches is this."""
        place = self.page.locator(selector)
        for _ in range(most):
            self.page.keyboard.press("Tab")
            if place.evaluate("one => one === document.activeElement"):
                return
        raise AssertionError(f"expected the tab key to reach {selector} in {most} steps")

    def tab_stops(self, most: int = 60) -> list[str]:
        """Return what the tab key reaches, in order, until it leaves the page."""
        stops: list[str] = []
        for _ in range(most):
            self.page.keyboard.press("Tab")
            stop = str(self.page.evaluate(_FOCUSED))
            if not stop:
                break
            stops.append(stop)
        return stops


@contextlib.contextmanager
def opened_window(
    browser: Browser, origin: str, *, scheme: Scheme = "light", size: ViewportSize = DESK
) -> Iterator[Window]:
    """Open a page without cookies or a past; nothing that it asks for elsewhere is sent."""
    context = browser.new_context(viewport=size, color_scheme=scheme)
    with contextlib.closing(context):
        yield Window(_guarded(context, origin), origin)


def _guarded(context: BrowserContext, origin: str) -> Page:
    context.route(lambda url: not url.startswith(origin), lambda route: route.abort())
    return context.new_page()


@cache
def _axe_source() -> str:
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
