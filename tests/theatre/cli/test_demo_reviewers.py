"""The two stand-ins: small rules over brief and answer, worked out by hand."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drawn import drawn
from theatre.cli.demo.reviewers import (
    REVIEWERS,
    asks_who_decided,
    contrast,
    demo_scores,
    reads_from_afar,
    score_file,
)
from theatre.cli.hitl_command import read_scores
from theatre.engine.replay import RatingItem, SubmittedScore

DOMAINS = ("colour", "typography", "spacing", "motion", "shape", "texture", "composition", "tone")


def item(
    *,
    tokens: object = None,
    words: tuple[int, ...] = (),
    wants: tuple[str, ...] = (),
    avoids: tuple[str, ...] = ("tone/wry",),
    overrides: int = 0,
    medium: str = "leaflet",
    audience: str = "members",
) -> RatingItem:
    sheet: dict[str, Any] = {f"asset{n}.words": count for n, count in enumerate(words, start=1)}
    return RatingItem(
        episode_id="e1",
        input_data={"brief": {"medium": medium, "audience": audience}},
        answers={
            "easel": {},
            "artisan": {
                "tokens": tokens or {},  # type: ignore[dict-item]  # whatever a construct sends
                "direction": {"we_want": [*wants], "we_avoid": [*avoids]},
                "overrides": [{"tdr": f"TDR-{n:03d}"} for n in range(overrides)],
            },
            "mint": {"sheet": sheet},
        },
    )


BLACK_ON_WHITE = {"colours.ground": "#FFFFFF", "colours.ink": "#000000"}


@pytest.mark.parametrize(
    ("one", "other", "ratio"),
    [("#FFFFFF", "#000000", 21.0), ("#777777", "#FFFFFF", 4.48), ("#1F4FA3", "#1F4FA3", 1.0)],
)
def test_contrast_is_that_of_wcag_whichever_comes_first(one: str, other: str, ratio: float) -> None:
    assert contrast(one, other) == contrast(other, one) == pytest.approx(ratio, abs=0.005)


@pytest.mark.parametrize("colour", [None, 7, "", "white", "#FFF", "#GGGGGG", ["#FFFFFF"]])
def test_what_is_no_colour_has_no_contrast(colour: object) -> None:
    assert contrast(colour, "#FFFFFF") is None


@pytest.mark.parametrize(
    ("shown", "score"),
    [
        (item(), 2.0),
        (item(tokens=BLACK_ON_WHITE), 4.0),
        (item(tokens={**BLACK_ON_WHITE, "colours.ink": "#777777"}), 2.0),
        (item(tokens={**BLACK_ON_WHITE, "colours.ink": "#666666"}), 3.0),
        (item(tokens={**BLACK_ON_WHITE, "colours.accent": "#1F4FA3"}), 4.5),
        (item(tokens={**BLACK_ON_WHITE, "colours.accent": "#C6F432"}), 4.0),
        (item(tokens={**BLACK_ON_WHITE, "typography.text_size": 18}), 4.5),
        (item(tokens={**BLACK_ON_WHITE, "typography.text_size": 15}), 3.5),
        (item(tokens=BLACK_ON_WHITE, words=(4, 16), medium="poster"), 3.5),
        (item(tokens=BLACK_ON_WHITE, words=(4, 9), medium="story"), 4.5),
        (item(tokens=BLACK_ON_WHITE, words=(12,), medium="story"), 4.0),
        (item(tokens=BLACK_ON_WHITE, words=(22,), medium="website"), 4.0),
    ],
)
def test_the_first_asks_whether_it_can_be_read_where_people_meet_it(
    shown: RatingItem, score: float
) -> None:
    assert sum(reads_from_afar(shown).values()) == score


@pytest.mark.parametrize(
    ("shown", "score"),
    [
        (item(), 1.0),
        (item(wants=tuple(f"{domain}/x" for domain in DOMAINS)), 5.0),
        (item(wants=("colour/soot", "colour/mist", "tone/plain")), 2.0),
        (item(wants=("colour/soot", "tone/plain"), avoids=()), 1.5),
        (item(wants=("colour/neon", "typography/placard", "shape/crisp")), 1.5),
        (item(wants=("colour/neon", "typography/slab", "shape/crisp")), 2.5),
        (item(wants=("tone/wry", "shape/crisp"), audience="children"), 1.0),
        (item(wants=("tone/wry", "shape/crisp"), audience="press"), 2.0),
        (item(wants=("colour/soot", "tone/plain", "shape/crisp"), overrides=2), 1.5),
    ],
)
def test_the_second_asks_who_decided_and_whether_it_holds_together(
    shown: RatingItem, score: float
) -> None:
    assert max(1.0, sum(asks_who_decided(shown).values())) == score


def test_scores_stay_on_the_scale_and_say_why() -> None:
    low, high = item(avoids=()), item(tokens={**BLACK_ON_WHITE, "colours.accent": "#1F4FA3"})
    best = item(
        tokens={**BLACK_ON_WHITE, "colours.accent": "#1F4FA3", "typography.text_size": 19},
        words=(8,),
        medium="poster",
    )
    assert demo_scores("demo-reviewer-b", [low]) == [
        SubmittedScore(
            episode_id="e1",
            score=1.0,
            comment="0 of eight domains are decided (+1); nothing is avoided (-0.5)",
        )
    ]
    assert [one.score for one in demo_scores("demo-reviewer-a", [high, best])] == [4.5, 5.0]


def test_a_file_of_theirs_is_one_that_the_command_reads(tmp_path: Path) -> None:
    scores = demo_scores("demo-reviewer-a", [item(), item(tokens=BLACK_ON_WHITE)])
    path = tmp_path / "scores.jsonl"
    path.write_bytes(score_file(scores))
    assert read_scores(path) == scores


SCALAR = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3)
)
ODD = (
    SCALAR | st.lists(SCALAR, max_size=2) | st.dictionaries(st.text(max_size=2), SCALAR, max_size=2)
)
NAMES = ("colours.ink", "colours.ground", "typography.text_size", "asset1.words", "we_want")


def with_odd_members(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    inside = st.dictionaries(st.sampled_from(NAMES), ODD, max_size=3)
    return st.dictionaries(st.sampled_from(names), ODD | inside, max_size=4)


@settings(max_examples=drawn(40))
@given(
    given=with_odd_members("brief"),
    artisan=with_odd_members("tokens", "direction", "overrides"),
    mint=with_odd_members("sheet"),
)
def test_no_answer_is_too_odd_for_them(
    given: dict[str, Any], artisan: dict[str, Any], mint: dict[str, Any]
) -> None:
    shown = RatingItem(episode_id="e", input_data=given, answers={"artisan": artisan, "mint": mint})
    for name in REVIEWERS:
        (score,) = demo_scores(name, [shown])
        assert isinstance(score.score, float)
        assert 1 <= score.score <= 5
