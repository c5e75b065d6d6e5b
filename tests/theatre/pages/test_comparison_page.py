"""A comparison says who scored higher only where interval and test both bear it."""

from typing import Any

import pytest

from tests.theatre.pages.test_hostile_text import (
    PLANTED,
    Elements,
    planted_everywhere,
    require_text,
)
from theatre.pages.comparison_page import render_comparison, render_comparison_file

APART = "better scored higher."
UNDECIDED = "The data do not tell them apart."


def run(score: float | None) -> dict[str, Any]:
    interval = {"low": 0.2, "high": 0.9, "method": "bca", "level": 0.95}
    return {
        "verification_tier": "BACKTESTED",
        "expires_at": "2027-02-21T21:11:09.555978Z",
        "scores": {"composite_score": score},
        "score_intervals": {"composite_score": interval},
        "counted": {"composite_score": 150},
        "withheld": 1,
        "findings": ["near-duplicates"],
    }


def comparison(low: float | None, high: float | None, p: float | None) -> dict[str, Any]:
    measured = {
        "is_paired": True,
        "counted": {"first": 150, "second": 150},
        "difference": {"value": -0.1, "low": low, "high": high},
        "test": None if p is None else {"test": "mcnemar", "p_value": p},
        "p_holm": p,
    }
    return {
        "episodes": 150,
        "clusters": 0,
        "scorer_kinds": {"exact_match": "exact"},
        "people_have_a_share": False,
        "runs": {"worse": run(0.3), "better": run(None)},
        "pairs": [
            {
                "first": "worse",
                "second": "better",
                "is_paired": True,
                "measures": {"composite_score": measured},
            }
        ],
    }


def test_a_score_that_an_answer_without_any_work_has_too_says_so_next_to_it() -> None:
    compared = comparison(-0.2, -0.01, 0.01)
    for name, one in compared["runs"].items():
        for of in ("scores", "score_intervals", "counted"):
            one[of]["right"] = one[of]["composite_score"]
        if name == "worse":
            one["findings"] = ["baseline-meets-interval:right", "form-alone:other"]
    text = Elements(render_comparison_file(compared)).text
    assert text.count("On right an answer without any work does as well.") == 1
    assert "in good form" not in text


@pytest.mark.parametrize(
    ("low", "high", "p", "words"),
    [
        (-0.2, -0.01, 0.01, APART),
        (-0.2, -0.01, 0.2, UNDECIDED),
        (-0.2, 0.01, 0.01, UNDECIDED),
        (-0.2, -0.01, None, UNDECIDED),
        (None, None, 0.01, UNDECIDED),
    ],
)
def test_only_what_the_data_bear_is_said(
    low: float | None, high: float | None, p: float | None, words: str
) -> None:
    worths = {"worse": "EXPIRED", "better": "BACKTESTED"}
    text = Elements(render_comparison(comparison(low, high, p), {"worse": "/c/1"}, worths)).text
    assert words in text
    assert text.count("now EXPIRED") == 1
    assert "now BACKTESTED" not in text
    assert (APART in text) is (words == APART)


@pytest.mark.parametrize("kind", PLANTED)
def test_what_is_planted_is_text(kind: str) -> None:
    planted = planted_everywhere(comparison(-0.2, -0.1, 0.01), PLANTED[kind])
    for pair in planted["pairs"]:
        pair["first"] = PLANTED[kind] or "worse"
    require_text(render_comparison_file(planted))
