"""A comparison says who is better only where interval and test both bear it, and draws versions."""

from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.theatre.pages.test_hostile_text import (
    PLANTED,
    Elements,
    planted_everywhere,
    require_text,
)
from theatre import svg
from theatre.pages.comparison_page import render_comparison, render_comparison_file
from theatre.pages.served import version_charts

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


def certificate(number: int, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    return {
        "certificate_id": f"c{number}",
        "template_id": "sums_v1",
        "construct_version": "a" * 40,
        "composite_score": 0.5,
        "effective_tier": "BACKTESTED",
        "issued_at": f"2026-11-{number:02}T00:00:00.000000Z",
        **changes,
    }


def drawn(chart: str) -> tuple[list[float], list[tuple[float, float]], list[str]]:
    """Return where discs stand across, the ends of each bar in pixels, and all words."""
    root = ET.fromstring(chart)  # noqa: S314 - ours
    kinds: dict[str, list[ET.Element]] = {}
    for one in root.iter():
        kinds.setdefault(one.tag.rpartition("}")[2], []).append(one)
    places = [float(one.attrib["cx"]) for one in kinds["circle"]]
    bars = []
    for one in kinds.get("polygon", []):
        if "fill-opacity" in one.attrib:
            heights = [float(pair.split(",")[1]) for pair in one.attrib["points"].split()]
            bars.append((max(heights), min(heights)))
    return places, bars, [one.text or "" for one in kinds["text"]]


def test_scores_stand_at_their_moment_with_their_intervals() -> None:
    dated = [certificate(number) for number in (21, 6, 1)]
    # The one of the middle has no interval: nothing is drawn in its place.
    (chart,) = version_charts(dated, {"c1": (0.25, 0.75), "c21": (0.0, 1.0)})
    places, bars, words = drawn(chart)
    *places, legend = places
    assert legend < places[0]
    assert 3 * (places[1] - places[0]) == pytest.approx(places[2] - places[1], abs=0.1)
    assert bars == [(182.5, 87.5), (230, 40)]
    assert words[0] == "sums_v1: composite scores by issue"
    assert {"2026-11-01", "2026-11-21", f"version {'a' * 12}…"} <= set(words)


def test_runs_of_one_minute_stand_as_far_apart_as_those_of_a_year() -> None:
    each = [certificate(1, issued_at=f"2026-11-01T12:00:{two}.000000Z") for two in ("09", "00")]
    (chart,) = version_charts(each, {})
    _, first, last = sorted(drawn(chart)[0])
    assert last - first > 500
    assert {"12:00:00", "12:00:03", "12:00:06", "12:00:09"} <= set(drawn(chart)[2])


def test_scores_of_two_templates_stand_on_no_common_chart() -> None:
    dated = [
        certificate(4, template_id="other_v1"),
        certificate(3),
        certificate(2, template_id="alone_v1"),
        certificate(2, template_id="other_v1"),
        certificate(1),
        certificate(1, composite_score=None, template_id="alone_v1"),
    ]
    charts = version_charts(dated, {})
    assert [drawn(one)[2][0].partition(":")[0] for one in charts] == ["other_v1", "sums_v1"]


def test_what_is_unverified_now_is_grey_and_each_version_has_a_mark_of_its_own() -> None:
    other = {"construct_version": "b" * 40}
    dated = [certificate(3, **other), certificate(2, effective_tier="UNVERIFIED"), certificate(1)]
    (chart,) = version_charts(dated, {})
    root = ET.fromstring(chart)  # noqa: S314 - ours
    marks = [one for one in root.iter() if one.tag.rpartition("}")[2] in {"circle", "polygon"}]
    colours = [one.attrib["fill"].replace("none", "") or one.attrib["stroke"] for one in marks]
    assert colours == [svg.HUES[0], svg.GREY, svg.HUES[1], svg.HUES[0], svg.HUES[1]]
    assert [one.tag.rpartition("}")[2] for one in marks[:3]] == ["circle", "circle", "polygon"]
