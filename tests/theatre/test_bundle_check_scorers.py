"""What an answer comes to in the check: asked of the scorer, or decided without it."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from tests.theatre.runs import TEMPLATE, with_changes
from theatre.engine.bundle_check.arithmetic import Tally
from theatre.engine.bundle_check.plan import committed_plan
from theatre.engine.bundle_check.report import NOTHING, Nothing, at, same_json
from theatre.engine.bundle_check.scorers import EpisodeAnswer, PinnedScorers
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import (
    GroundTruthEpisode,
    InvocationStatus,
    Scorer,
    ScorerKind,
    ScoringCase,
)

COLOUR: JsonObject = {"colour": "red"}


def given(answer: object) -> Scorer:
    """Return a scorer that gives `answer`, or raises it."""

    def score(case: ScoringCase) -> float | None:
        assert (case.expected, case.answer) == ("red", "blue")
        if isinstance(answer, Exception):
            raise answer
        return cast("float | None", answer)

    return Scorer(name="any", version="1", kind=ScorerKind.EXACT, params_schema={}, score=score)


def result_of(
    scorer: Scorer,
    output: JsonObject | None,
    *,
    expected: JsonObject | None = COLOUR,
    params: JsonObject | None = None,
    status: InvocationStatus = InvocationStatus.SUCCESS,
) -> float | str:
    """Return the result of the one criterion, with an answer of `output`."""
    field: JsonObject = {"field": "colour", "expected": "colour"}
    entry: JsonValue = {"scorer": "any", "params": field if params is None else params}
    changes: dict[str, JsonValue] = {
        "/criteria": {"criteria_ids": ["colour"], "criteria_human": "", "weights": {"colour": 1}},
        "/scoring/criteria_scorers": {"colour": entry},
        "/dataset_hashes": {"truth": "ab" * 32},
    }
    plan = committed_plan(with_changes(TEMPLATE, changes))
    episode = GroundTruthEpisode(
        seq=1, episode_id="one", input_data={}, expected_output=expected, cluster_key=None
    )
    answer = EpisodeAnswer(status=status, hops={} if output is None else {"pilot": output})
    scorers = PinnedScorers(plan, {"any": scorer})
    return scorers.results(episode, answer, scorers.expected(episode, None))["colour"]


BLUE: JsonObject = {"colour": "blue"}


@pytest.mark.parametrize(
    ("number", "result"),
    [
        (0.25, 0.25),
        (1, 1),
        (np.float64(0.5), 0.5),
        (None, "declined"),
        (ValueError("no"), "unscored"),
        ("declined", "unscored"),
        (True, "unscored"),
    ],
)
def test_what_a_scorer_gives_is_a_number_or_a_word_for_why_there_is_none(
    number: object, result: float | str
) -> None:
    seen = result_of(given(number), BLUE)
    assert (seen, type(seen)) == (result, type(result))


def test_a_scorer_is_not_asked_where_there_is_nothing_to_ask_about() -> None:
    never = replace(given(0), score=lambda _: 1 / 0)
    assert result_of(never, {"color": "blue"}) == 0
    assert result_of(never, BLUE, expected={"size": 1}) == "not_applicable"
    assert result_of(never, BLUE, expected=None) == "not_applicable"
    assert result_of(never, BLUE, params={}, expected=None) == "not_applicable"
    assert result_of(never, None, status=InvocationStatus.TIMEOUT) == 0
    refused = {"status": InvocationStatus.REFUSED, "expected": {"size": 1}}
    assert result_of(never, None, **refused) == "not_applicable"  # type: ignore[arg-type]


def test_true_is_no_score_even_behind_an_episode_that_had_the_score_1() -> None:
    tally = Tally({"criteria": {"criteria_ids": ["colour"]}}, "ab" * 32, 2)
    lines = [
        tally.add(seq=seq, episode_id=str(seq), status="success", results={"colour": result})
        for seq, result in enumerate((1, 1.0, True), start=1)
    ]
    assert [line["scores"]["colour"] for line in lines] == [1, 1, None]
    assert tally.score_counts()["colour"]["unscored"] == 1


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        (("list", -1), "last"),
        (("list", 2), NOTHING),
        (("list", -3), NOTHING),
        (("list", "0"), NOTHING),
        (("text", 0), NOTHING),
        (("null", "text"), NOTHING),
        (("absent", "text"), NOTHING),
        ((0,), NOTHING),
    ],
)
def test_nothing_lies_where_a_key_or_an_index_does_not_fit(
    keys: tuple[str | int, ...], found: JsonValue | Nothing
) -> None:
    assert at({"list": ["first", "last"], "text": "first", "null": None}, *keys) == found


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True),
        (0, False, False),
        ([{"a": 1}], [{"a": True}], False),
        ({"a": None}, {}, False),
        ([1], [1, 2], False),
        ({"b": 1, "a": [2.0]}, {"a": [2], "b": 1.0}, True),
        ("1", 1, False),
        (None, NOTHING, False),
        (NOTHING, NOTHING, False),
    ],
)
def test_values_are_the_same_where_their_canonical_forms_are(
    one: JsonValue | Nothing, other: JsonValue | Nothing, *, same: bool
) -> None:
    assert same_json(one, other) is same
    assert same_json(other, one) is same
