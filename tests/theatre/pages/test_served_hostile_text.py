"""What anybody wrote is text on the pages round a certificate, and never an element."""

from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from html.parser import HTMLParser
from typing import Any

import pytest

from theatre.pages import served
from theatre.transparency import entries

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\u202egnp.exe\u202c \u05d0\u05d1\u05d2",
    "x" * 10_000,
    "nul\0",
    "{{ 7*7 }}</textarea></pre>",
)
PLAIN = "planted-text"
CERTIFICATE = "018f0000-0000-7000-8000-00000000dead"
RUN = {"commitments": 1, "certified": 1, "void": {}, "open": 0, "overdue": 0}


class Elements(HTMLParser):
    """Notes what a page is made of."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple[str, ...]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, tuple(name for name, _ in attrs)))


def given(text: str) -> dict[str, Any]:
    """Return what each page is rendered from, with `text` wherever others may have written it."""
    one: dict[str, Any] = {
        "certificate_id": CERTIFICATE,
        "issued_at": "2026-11-23T00:00:00Z",
        "template_id": text,
        "construct_id": text,
        "construct_version": text,
        "composite_score": 0.5,
        "replay_count": 3,
        "effective_tier": "UNVERIFIED",
        "status": "current",
        "reasons": [text],
        "findings": [f"baseline-meets-interval:{text}"],
        "run_by": text,
    }
    record = {**RUN, "construct_id": text, "versions": [{**RUN, "construct_version": text}]}
    record["audits"] = {"requested": 0, "answered": 0, "overdue": 0}
    routing = {"effective_tier": "UNVERIFIED", "reasons": [text], "run_by": text}
    template = {
        "display_name": text,
        "criteria": {"criteria_ids": [text], "criteria_human": text, "weights": {text: 1}},
        "scoring": {"criteria_scorers": {text: {"scorer": text}}},
        "resolution_programme": [
            {"step_id": text, "type": "construct_invocation", "construct_id": text}
        ],
        "version_pins": {"constructs": {text: text}},
        "execution_path": "replay",
        "metadata": {"author": text},
    }
    document = {
        "template_json": template,
        "description": text,
        "template_family": text,
        "sha256": "ab",
    }
    rating = {
        "step_id": text,
        "rubric": text,
        "rubric_sha256": "ab",
        "scoring_scale": {"min": 1, "max": 3, "labels": {"1": text}},
        "minimum_scorers": 1,
        "complete_scorers": 0,
        "opened_at": "2026-11-21T12:00:00Z",
        "timeout_seconds": None,
        "items": [{"episode_id": text, "input_data": {text: text}, "answers": {text: {"a": text}}}],
    }
    theatre = {"user": text, "rating": rating, "comments": text, "values": text, "errors": [text]}
    log = [
        {
            "index": 0,
            "type": kind.value,
            "members": {name: text if str in kinds else 1 for name, kinds in members.items()},
            "certificate_id": None,
        }
        # Private, so that a new entry is tried.
        for kind, members in entries._MEMBERS.items()  # noqa: SLF001
    ]
    return {
        "home": {"certificates": [one], "total": 1, "next_cursor": text, "search": text},
        "construct": {"record": record, "routing": routing, "certificates": [one, {**one}]},
        "template": document,
        "log": {"entries": log},
        "theatre": theatre,
        "sign-in": {"error": text, "username": text},
    }


def rendered(name: str, values: Any) -> str:  # noqa: ANN401 - any JSON
    """Return a page from what `given` has of it."""
    match name:
        case "home":
            return served.home_page(values, search=values["search"])
        case "construct":
            routing = {**values["routing"], "certificate_id": None}
            intervals = {CERTIFICATE: (0.0, 1.0)}
            return served.construct_page(
                values["record"], routing, values["certificates"], intervals
            )
        case "template":
            return served.template_page(values)
        case "log":
            return served.log_page(values["entries"], size=1, older=None)
        case "theatre":
            answers = {"comment.0": values["comments"], "value.0": values["values"]}
            return served.theatre_page(
                CERTIFICATE,
                user=values["user"],
                tokens={"sign-out": "ab", "scores": "ab"},
                rating=served.rubric_form(values["rating"], answers, values["errors"]),
            )
    return served.sign_in_page("id", token="ab", **values)  # noqa: S106 - of a form


def fields(values: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:  # noqa: ANN401 - any JSON
    """Yield the path of each text that is the planted one."""
    if values == PLAIN:
        yield path
    elif isinstance(values, dict | list):
        for name, one in values.items() if isinstance(values, dict) else enumerate(values):
            yield from fields(one, (*path, name))


def with_field(values: Any, path: tuple[str | int, ...], text: str | None) -> Any:  # noqa: ANN401 - any JSON
    """Return a copy with another value in one place."""
    changed = holder = deepcopy(values)
    for name in path[:-1]:
        holder = holder[name]
    holder[path[-1]] = text
    return changed


FIELDS = [(page, path) for page, values in given(PLAIN).items() for path in fields(values)]


@pytest.mark.parametrize(
    ("page", "path"), FIELDS, ids=["/".join(map(str, (page, *path))) for page, path in FIELDS]
)
def test_a_hostile_value_in_one_field_alone_is_text(page: str, path: tuple[str | int, ...]) -> None:
    values = given(PLAIN)[page]
    expected = tags_of(rendered(page, with_field(values, path, "harmless")))
    for text in (*HOSTILE, None):
        html = rendered(page, with_field(values, path, text))
        assert text is None or tags_of(html) == expected, text
        assert not {"\u202e", "\0"} & set(html)
        assert len(html) < 30_000


def test_every_field_that_can_be_written_is_tried() -> None:
    # Names are not replaced one by one: the next test has them all.
    assert Counter(page for page, _ in FIELDS) == {
        "home": 7,
        "construct": 14,
        "template": 10,
        "log": 30,
        "theatre": 10,
        "sign-in": 2,
    }


def test_a_list_says_where_an_answer_without_any_work_does_as_well() -> None:
    said = "unverified; an answer without any work does as well on 1 criterion"
    values = given(PLAIN)["home"]
    values["certificates"][0]["reasons"] = []
    assert said in rendered("home", values)


def tags_of(page: str) -> list[str]:
    return [tag for tag, _ in Elements(page).seen if tag not in {"span", "bdi"}]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_others_wrote_adds_no_element(text: str) -> None:
    harmless = {name: rendered(name, values) for name, values in given("harmless").items()}
    for name, values in given(text).items():
        page = rendered(name, values)
        assert Elements(page).seen.count(("script", ("src", "defer"))) == 1
        tags = [tag for tag, _ in Elements(page).seen if tag != "span"]
        expected = [tag for tag, _ in Elements(harmless[name]).seen if tag != "span"]
        assert tags == expected, name
        assert "\u202e" not in page
        assert "\0" not in page
        assert len(page) < 400_000


def test_people_read_lines_as_lines_and_see_what_is_cut() -> None:
    """Lies behind what a page shows were scored as what stands before them."""
    values = given("Yours,\nthe \\new office")["theatre"]
    page = rendered("theatre", values)
    assert "Yours,\nthe \\\\new office" in page
    assert "Not all of it fits" not in page
    values["rating"]["items"][0]["answers"] = {"one": {"a": "true " * 4_000 + "a lie"}}
    page = rendered("theatre", values)
    assert ("a lie" in page, "Not all of it fits on this page" in page) == (False, True)


def test_the_page_says_until_when_scores_are_taken() -> None:
    values = given("harmless")["theatre"]
    assert "Scores are taken until" not in rendered("theatre", values)
    values["rating"]["timeout_seconds"] = 3600
    assert 'taken until <time datetime="2026-11-21T13:00:00' in rendered("theatre", values)
