"""Who may score what: every refusal has its code, stores nothing, and is in the audit chain."""

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import cast

import pytest

from tests.theatre.rated_runs import (
    AGGREGATE,
    desk_of,
    details,
    later,
    rate,
    rated_stage,
    rating,
    rubric_step,
    trail_of,
)
from tests.theatre.runs import PILOT, ScriptedAdapter, Stage, episodes, pilot_stage
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.clock import format_rfc3339, parse_rfc3339
from theatre.engine.errors import HumanScoreRefusedError, InvalidTransitionError
from theatre.engine.replay import SubmittedScore


@dataclass(frozen=True)
class Waiting:
    """A theatre that waits for people; Ada Author wrote the template, Bob Builder the construct."""

    stage: Stage
    items: list[str]

    def refusal(
        self, scorer: str, *scores: SubmittedScore, step_id: str | None = None
    ) -> list[tuple[str, str]]:
        """Expect a refusal that stores nothing but itself; return codes and messages."""
        taken = details(trail_of(self.stage), "human_score")
        with pytest.raises(HumanScoreRefusedError) as caught:
            rate(self.stage, scorer, scores, step_id=step_id)
        assert details(trail_of(self.stage), "human_score") == taken
        noted = [one["code"] for one in details(trail_of(self.stage), "human_score_refused")]
        codes = [code for code, _ in caught.value.refusals]
        assert noted[-len(codes) :] == codes
        return list(caught.value.refusals)

    def score(
        self, score: JsonValue = 3, *, at: int = 0, comment: str | None = None
    ) -> SubmittedScore:
        return SubmittedScore(episode_id=self.items[at], score=score, comment=comment)


def opened(folder: Path, entry: JsonObject | None = None, *steps: JsonObject) -> Waiting:
    stage = rated_stage(folder, episodes(8), steps=steps, ratings=[entry or rating()])
    authors = {PILOT: "Bob Builder"}
    finished = stage.run(ScriptedAdapter(), around=lambda around: replace(around, authors=authors))
    items = details(finished.trail, "hitl_opened")[0]["items"]
    return Waiting(stage, cast("list[str]", items))


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Waiting:
    """One for all that is refused: what stores nothing leaves it as it is."""
    return opened(tmp_path_factory.mktemp("waiting"))


@pytest.fixture
def fresh(tmp_path: Path) -> Waiting:
    return opened(tmp_path)


AUTHORS = ["Ada Author", "  ada AUTHOR\t", "Bob Builder", "BOB BUILDER", "Ada\u3164 Author"]


@pytest.mark.parametrize("scorer", AUTHORS)
def test_an_author_s_score_is_refused_however_the_name_is_written(
    waiting: Waiting, scorer: str
) -> None:
    ((code, message),) = waiting.refusal(scorer, waiting.score())
    assert code == "scorer-is-author"
    assert message.startswith(
        "expected somebody who is no author of the template or of a construct"
    )
    *_, noted = details(trail_of(waiting.stage), "human_score_refused")
    assert noted == {
        "step_id": "taste",
        "scorer": scorer.strip(),
        "episode_id": waiting.items[0],
        "score": 3,
        "code": "scorer-is-author",
    }


def test_names_that_look_the_same_are_the_same_in_any_unicode_form_and_case(tmp_path: Path) -> None:
    decomposed, upper = "Zoe\u0308\u200b  Stra\u00dfe\u2800", "ZO\u00cb STRASSE"
    stage = rated_stage(tmp_path, episodes(3), changes={"/metadata": {"author": decomposed}})
    items = cast(
        "list[str]", details(stage.run(ScriptedAdapter()).trail, "hitl_opened")[0]["items"]
    )
    ((code, _),) = Waiting(stage, items).refusal(
        upper, SubmittedScore(episode_id=items[0], score=1)
    )
    assert code == "scorer-is-author"


def test_an_author_may_score_where_the_template_says_so(tmp_path: Path) -> None:
    free = rating(identity_separation={"scorer_must_not_be_author": False})
    waiting = opened(tmp_path, free)
    assert rate(waiting.stage, "Ada Author", dict.fromkeys(waiting.items, 3)).enough


def test_without_a_word_on_identities_authors_are_kept_out_and_one_person_is_enough(
    tmp_path: Path,
) -> None:
    entry = {name: value for name, value in rating().items() if name != "identity_separation"}
    waiting = opened(tmp_path, entry)
    ((code, _),) = waiting.refusal("Bob Builder", waiting.score())
    assert code == "scorer-is-author"
    assert rate(waiting.stage, "Grace", dict.fromkeys(waiting.items, 3)).enough


@pytest.mark.parametrize("again", ["Grace", " grace ", "GRACE", "Gr\u2800ace"])
def test_the_same_identity_scores_an_item_once(fresh: Waiting, again: str) -> None:
    rate(fresh.stage, "Grace", [fresh.score(4)])
    ((code, message),) = fresh.refusal(again, fresh.score(4))
    assert code == "item-already-scored"
    assert "expected one score a person for each item" in message
    assert desk_of(fresh.stage).answered == {"Grace": 1}


def test_one_person_under_two_spellings_is_one_person(fresh: Waiting) -> None:
    first, second, third = fresh.items
    rate(fresh.stage, "Grace", {first: 4})
    rate(fresh.stage, "GRACE ", {second: 4})
    desk = rate(fresh.stage, "grace", {third: 4})
    assert (desk.answered, desk.complete_scorers) == ({"Grace": 3}, 1)


def test_an_item_twice_in_one_file_is_refused(waiting: Waiting) -> None:
    refusals = waiting.refusal("Grace", waiting.score(), waiting.score(4))
    assert [code for code, _ in refusals] == ["item-already-scored"]


@pytest.mark.parametrize("score", [0.999, 5.001, -3, 0, 1e300, 2**53 - 1])
def test_what_is_off_the_scale_is_refused(waiting: Waiting, score: float) -> None:
    ((code, message),) = waiting.refusal("Grace", waiting.score(score))
    assert code == "score-off-scale"
    assert message.startswith("expected a number from 1 to 5, got ")
    *_, noted = details(trail_of(waiting.stage), "human_score_refused")
    assert noted["score"] == score


@pytest.mark.parametrize(
    ("score", "noted"),
    [
        (math.nan, "nan"),
        (math.inf, "inf"),
        (2**53, "9007199254740992"),
        (True, "True"),
        ("3", "'3'"),
        (None, "None"),
        ([3], "[3]"),
    ],
)
def test_what_is_no_finite_number_is_refused(
    waiting: Waiting, score: JsonValue, noted: str
) -> None:
    ((code, message),) = waiting.refusal("Grace", waiting.score(score))
    assert (code, message[:30]) == ("score-not-a-number", "expected a finite number from ")
    *_, detail = details(trail_of(waiting.stage), "human_score_refused")
    assert detail["score"] == noted


@pytest.mark.parametrize("score", [1, 5, 1.0, 3.25])
def test_the_ends_of_the_scale_and_what_lies_between_are_taken(
    fresh: Waiting, score: float
) -> None:
    assert rate(fresh.stage, "Grace", [fresh.score(score)]).answered == {"Grace": 1}


def test_what_is_no_item_is_refused(waiting: Waiting) -> None:
    (other,) = [f"pilot-{n}" for n in range(1, 9) if f"pilot-{n}" not in waiting.items][:1]
    for episode_id in (other, "", "pilot-1\x1b[0m" * 100, "\udc80"):
        stranger = SubmittedScore(episode_id=episode_id, score=3)
        ((code, _),) = waiting.refusal("Grace", stranger)
        assert code == "not-an-item"


@pytest.mark.parametrize(
    ("scorer", "code"),
    [
        ("", "identity-empty"),
        (" \t\n\u2003", "identity-empty"),
        ("\u3164\u2800", "identity-empty"),
        ("Gr\u200bace", "identity-unreadable"),
        ("\udc80", "identity-unreadable"),
        ("G\x1b[2J", "identity-unreadable"),
        ("x" * 201, "identity-unreadable"),
    ],
)
def test_nobody_and_names_that_cannot_be_read_are_refused(
    waiting: Waiting, scorer: str, code: str
) -> None:
    ((seen, _),) = waiting.refusal(scorer, waiting.score())
    assert seen == code


@pytest.mark.parametrize("comment", ["\x00", "x" * 2001, "\ud800", "a\u202eb"])
def test_a_comment_that_cannot_be_kept_as_it_is_is_refused(waiting: Waiting, comment: str) -> None:
    ((code, _),) = waiting.refusal("Grace", waiting.score(comment=comment))
    assert code == "comment-unreadable"


def test_a_comment_is_kept(fresh: Waiting) -> None:
    rate(fresh.stage, "Grace", [fresh.score(comment="too red,\nby far")])
    (noted,) = details(trail_of(fresh.stage), "human_score")
    assert noted["comment"] == "too red,\nby far"


def test_of_several_scores_all_are_taken_or_none_and_each_reason_is_told(waiting: Waiting) -> None:
    refusals = waiting.refusal(
        "Grace", waiting.score(2), waiting.score(9, at=1), waiting.score("high", at=2)
    )
    assert [code for code, _ in refusals] == ["score-off-scale", "score-not-a-number"]
    assert desk_of(waiting.stage).answered == {}
    noted = details(trail_of(waiting.stage), "human_score_refused")[-2:]
    assert [one["episode_id"] for one in noted] == waiting.items[1:]


@pytest.mark.parametrize("step_id", ["aggregate", "elsewhere", "", "\udc80"])
def test_a_step_that_is_not_open_takes_no_score(waiting: Waiting, step_id: str) -> None:
    ((code, _),) = waiting.refusal("Grace", waiting.score(), step_id=step_id)
    assert code == "step-not-open"


def test_after_its_time_a_step_takes_no_score_even_before_anybody_runs_it(tmp_path: Path) -> None:
    waiting = opened(tmp_path, None, rubric_step(timeout_seconds=3600), AGGREGATE)
    rate(waiting.stage, "Grace", [waiting.score(2)])
    later(waiting.stage, 3600)
    ((code, message),) = waiting.refusal("Grace", waiting.score(2, at=1))
    assert code == "step-not-open"
    assert message.startswith("expected a score within 3600 s of 2026-11-21T12:")


def test_a_score_is_told_at_the_moment_at_which_it_was_taken(tmp_path: Path) -> None:
    """Or one of the last second could stand behind the limit, and no check would let it."""
    waiting = opened(tmp_path, None, rubric_step(timeout_seconds=3600), AGGREGATE)
    entries = {entry["event_type"]: entry for entry in trail_of(waiting.stage)}
    begin = parse_rfc3339(str(entries["hitl_opened"]["at"]))
    seconds = count(3599)

    def clock() -> datetime:
        return begin + timedelta(seconds=next(seconds))

    rate(waiting.stage, "Grace", [waiting.score()], clock=clock)
    assert trail_of(waiting.stage)[-1]["at"] == format_rfc3339(begin + timedelta(seconds=3599))


def test_whatever_is_refused_the_run_goes_on_with_the_rest(fresh: Waiting) -> None:
    fresh.refusal("Ada Author", fresh.score())
    for scorer in ("Grace", "Edsger"):
        rate(fresh.stage, scorer, dict.fromkeys(fresh.items, 3))
    fresh.refusal("Grace", fresh.score())
    finished = fresh.stage.run(ScriptedAdapter())
    assert finished.resolution["outcome"] == "certified"
    assert [entry["event_type"] for entry in finished.lines("audit_trail.jsonl")].count(
        "human_score_refused"
    ) == 2


def test_a_theatre_that_asks_nobody_has_no_desk(tmp_path: Path) -> None:
    plain = pilot_stage(tmp_path / "plain", episodes(2))
    rated = rated_stage(tmp_path / "rated", episodes(2))
    for stage, state in ((plain, "COMMITTED"), (rated, "COMMITTED")):
        with pytest.raises(InvalidTransitionError) as caught:
            rate(stage, "Grace", {"pilot-1": 3})
        assert f"in {state} without an open rubric: run it first" in str(caught.value)
    plain.run(ScriptedAdapter())
    before = trail_of(plain)
    with pytest.raises(InvalidTransitionError, match=r"in RESOLVED .*: its run is over"):
        rate(plain, "Grace", {"pilot-1": 3})
    assert trail_of(plain) == before
