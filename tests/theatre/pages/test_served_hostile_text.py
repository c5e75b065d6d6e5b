"""What anybody wrote is text on the pages round a certificate, and never an element."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest

from theatre.pages import served

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\u202egnp.exe\u202c \u05d0\u05d1\u05d2",
    "x" * 10_000,
    "nul\0",
    "{{ 7*7 }}</textarea></pre>",
)
RUN = {"commitments": 1, "certified": 1, "void": {}, "open": 0, "overdue": 0}


class Elements(HTMLParser):
    """Notes what a page is made of."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple[str, ...]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, tuple(name for name, _ in attrs)))


def pages(text: str) -> dict[str, str]:
    """Return each page with `text` wherever others may have written it."""
    one: dict[str, Any] = {
        "certificate_id": "018f0000-0000-7000-8000-00000000dead",
        "issued_at": "2026-11-23T00:00:00Z",
        "template_id": text,
        "construct_id": text,
        "construct_version": text,
        "composite_score": 0.5,
        "replay_count": 3,
        "effective_tier": "UNVERIFIED",
        "status": "current",
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
        "items": [{"episode_id": text, "input_data": {text: text}, "answers": {text: {"a": text}}}],
    }
    members = {"construct_id": text, "commitment_hash": text, "close_by": text}
    return {
        "home": served.home_page(
            {"certificates": [one], "total": 1, "next_cursor": text}, search=text
        ),
        "construct": served.construct_page(
            record, {**routing, "certificate_id": None}, [one, one], {one["certificate_id"]: (0, 1)}
        ),
        "template": served.template_page(document),
        "log": served.log_page(
            [{"index": 0, "type": "commitment/v1", "members": members, "certificate_id": None}],
            size=1,
            older=None,
        ),
        "theatre": served.theatre_page(
            "018f0000-0000-7000-8000-00000000dead",
            user=text,
            tokens={"sign-out": "ab", "scores": "ab"},
            rating=served.rubric_form(rating, {"comment.0": text, "value.0": text}, [text]),
        ),
        "sign-in": served.sign_in_page("id", token="ab", error=text, username=text),  # noqa: S106
    }


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_others_wrote_adds_no_element(text: str) -> None:
    harmless = pages("harmless")
    for name, page in pages(text).items():
        assert Elements(page).seen.count(("script", ("src", "defer"))) == 1
        tags = [tag for tag, _ in Elements(page).seen if tag != "span"]
        expected = [tag for tag, _ in Elements(harmless[name]).seen if tag != "span"]
        assert tags == expected, name
        assert "\u202e" not in page
        assert "\0" not in page
        assert len(page) < 400_000
