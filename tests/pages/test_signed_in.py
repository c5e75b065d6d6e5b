"""Who is signed in: people who are asked, with keys alone, and an owner who watches a run."""

import pytest
from playwright.sync_api import Browser

from backend.api.http.visitors import SESSION, SIGN_IN
from tests.backend.serving import PASSWORD
from tests.pages.browsers import Window, opened_window
from tests.pages.page_stage import HOSTILE, ITEMS, PageStage
from tests.pages.test_page_walk import looked_at, read_closely
from tests.theatre.echelon_process import until

COOKIE = {"secure": True, "httpOnly": True, "sameSite": "Strict", "path": "/theatres"}


def test_what_the_signed_in_see_is_legible(stage: PageStage, browser: Browser) -> None:
    stage.client.add_user("zoe")
    address = f"{stage.origin}{stage.asking}"
    for name in ("zoe", "ada"):
        with opened_window(browser, stage.origin) as window:
            window.open(address)
            sign_in(window, stage.asking, name)
            assert window.page.locator("form[action$='/scores'], #live").count() > 0
            assert read_closely(window, address) == []


def test_people_sign_in_and_answer_item_by_item_with_keys_alone(
    stage: PageStage, browser: Browser
) -> None:
    for name in ("bob", "eve"):
        stage.client.add_user(name)
    path = stage.asking
    with opened_window(browser, stage.origin) as window:
        window.open(f"{stage.origin}{path}")
        assert window.page.locator("form[action$='/scores']").count() == 0
        sign_in(window, path, "bob")
        kept = window.page.context.cookies(f"{stage.origin}{path}")
        assert {one.get("name") for one in kept} == {SESSION, SIGN_IN}
        assert [{name: one.get(name) for name in COOKIE} for one in kept] == [COOKIE] * 2
        assert window.page.evaluate("document.cookie") == ""
        assert looked_at(window, f"{stage.origin}{path}") == []
        assert window.violations(contrast=False) == []
        rubric = window.page.locator("main").text_content() or ""
        assert HOSTILE[1] in rubric
        legend = window.page.locator("#main fieldset").first.locator("label").all_text_contents()
        assert [one.strip() for one in legend] == ["1: badly", "2", "3", "4", "5: well"]
        answer_all(window, [number % 5 + 1 for number in range(ITEMS)])
        sign_out(window)
        kept = window.page.context.cookies(f"{stage.origin}{path}")
        assert SESSION not in {one.get("name") for one in kept}
        sign_in(window, path, "eve")
        answer_all(window, [number % 4 + 1 for number in range(ITEMS)])
        until(
            lambda: stage.owner.get(f"/api/v1{path}").document["state"] == "ARCHIVED",
            "the end of the run",
        )
        window.open(f"{stage.origin}{path}")
        window.tab_to("a[href^='/c/']")
        window.page.keyboard.press("Enter")
        window.page.locator("[data-certificate]").wait_for()
        people = window.page.locator("#people").text_content() or ""
        assert window.faults == []
    (rated,) = stage.aggregate(path)["human_scores"].values()
    assert rated["scorers"] == 2
    assert f"{rated['agreement']['value']:.2f}" in people


def sign_in(window: Window, path: str, name: str) -> None:
    """From the page of a theatre, by its link."""
    if not window.page.url.endswith("/sign-in"):
        window.tab_to(f"a[href='{path}/sign-in']")
        window.page.keyboard.press("Enter")
    window.page.locator("#username").wait_for()
    window.tab_to("#username")
    window.page.keyboard.type(name)
    window.page.keyboard.press("Tab")
    window.page.keyboard.type(PASSWORD)
    window.page.keyboard.press("Enter")
    window.page.locator("form[action$='/sign-out']").wait_for()


def sign_out(window: Window) -> None:
    window.tab_to("form[action$='/sign-out'] button")
    window.page.keyboard.press("Enter")
    window.page.locator("#username").wait_for()


def answer_all(window: Window, values: list[int]) -> None:
    """Score every item with the arrow keys, and send the form."""
    for number, value in enumerate(values):
        window.tab_to(f"input[name='value.{number}'][value='1']")
        window.page.keyboard.press("Space")
        for _ in range(value - 1):
            window.page.keyboard.press("ArrowDown")
        chosen = window.page.locator(f"input[name='value.{number}']:checked")
        assert chosen.get_attribute("value") == str(value)
    window.tab_to("input[name=agreed]")
    window.page.keyboard.press("Space")
    with window.page.expect_navigation():
        window.tab_to("form[action$='/scores'] button")
        window.page.keyboard.press("Enter")


@pytest.mark.parametrize("restarts", [False, True], ids=["straight on", "through a restart"])
def test_an_owner_watches_a_run_to_its_end(
    stage: PageStage, browser: Browser, *, restarts: bool
) -> None:
    path = stage.gated()
    with opened_window(browser, stage.origin) as window:
        window.open(f"{stage.origin}{path}")
        sign_in(window, path, "ada")
        assert stage.owner.post(f"/api/v1{path}/run", b"").status == 202
        shows(window, "progress", "2")
        assert shows(window, "total", "8") == "8"
        assert window.page.locator("[data-live=bar]").evaluate("one => one.value") == 2
        stage.sums.let_through()
        shows(window, "progress", "5")
        assert window.faults == []
        if restarts:
            stage.restart()

        def is_over() -> bool:
            stage.sums.let_through("second gate")
            return bool(stage.owner.get(f"/api/v1{path}").document["state"] == "ARCHIVED")

        until(is_over, "the end of the run")
        window.page.locator("a[href^='/c/']").wait_for()
        # While there was no service, the browser said so.
        assert [one for one in window.faults if not (restarts and "ERR_" in one)] == []
        assert window.page.locator("#live").get_attribute("data-over") == "yes"


def shows(window: Window, name: str, value: str) -> str:
    place = window.page.locator(f"[data-live={name}]", has_text=value)
    place.wait_for()
    return place.text_content() or ""
