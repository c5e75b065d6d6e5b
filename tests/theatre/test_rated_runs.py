"""A programme that asks people: it waits, goes on with enough of them, and counts their scores."""

from pathlib import Path
from typing import cast

import pytest

from tests.theatre.rated_runs import (
    AGGREGATE,
    desk_of,
    details,
    drawn,
    events,
    later,
    rate,
    rated_stage,
    rating,
    rubric_step,
    trail_of,
)
from tests.theatre.runs import (
    CHAIN,
    EASEL,
    EASEL_VERSION,
    ERROR,
    LATE,
    REFUSED,
    WRONG,
    Finished,
    RunOptions,
    ScriptedAdapter,
    Stage,
    answer_as_asked,
    checked,
    episodes,
)
from theatre.engine.audit_chain import AuditEvent
from theatre.engine.bundle_check.standalone import verify
from theatre.engine.canonical_json import JsonObject, canonical_line
from theatre.engine.errors import HumanScoreRefusedError, InvalidTransitionError
from theatre.files.run_journal import FileRunJournal

ALL = [f"pilot-{n}" for n in range(1, 9)]


def run(stage: Stage, **options: RunOptions) -> Finished:
    return stage.run(ScriptedAdapter(answer_as_asked), **cast("RunOptions", options))


def bundles(stage: Stage) -> list[str]:
    return [path.name for path in stage.folder.iterdir() if "bundle" in path.name]


def waiting(folder: Path, answers: dict[int, JsonObject] | None = None) -> tuple[Stage, list[str]]:
    """Return a theatre of eight episodes that waits, and its items."""
    stage = rated_stage(folder, episodes(8, answers))
    finished = run(stage)
    assert finished.theatre.state == "SETTLING"
    (opened,) = details(finished.trail, "hitl_opened")
    return stage, cast("list[str]", opened["items"])


def test_a_run_stops_at_its_rubric_and_says_what_it_asks(tmp_path: Path) -> None:
    stage = rated_stage(tmp_path, episodes(8, {2: ERROR, 5: REFUSED}))
    finished = run(stage)
    assert (finished.theatre.state, stage.state) == ("SETTLING", "SETTLING")
    scored = [name for name in ALL if name not in {"pilot-2", "pilot-5"}]
    assert details(finished.trail, "hitl_opened") == [
        {
            "step_id": "taste",
            "items": drawn(stage, scored, 3),
            "minimum_scorers": 2,
            "scorer_must_not_be_author": True,
            "timeout_seconds": None,
        }
    ]
    assert events(finished.trail) == ["settling", "hitl_opened"]
    assert bundles(stage) == []


def test_without_answers_it_waits_as_long_as_it_takes_and_calls_nobody(tmp_path: Path) -> None:
    stage, _ = waiting(tmp_path)
    before = trail_of(stage)
    later(stage, 10 * 365 * 86400)
    construct = ScriptedAdapter()
    assert stage.run(construct).theatre.state == "SETTLING"
    assert (trail_of(stage), construct.asked) == (before, [])


def test_one_of_two_people_is_not_enough(tmp_path: Path) -> None:
    stage, items = waiting(tmp_path)
    desk = rate(stage, "Grace", dict.fromkeys(items, 4))
    assert (desk.answered, desk.complete_scorers, desk.enough) == ({"Grace": 3}, 1, False)
    assert run(stage).theatre.state == "SETTLING"
    desk = rate(stage, "Edsger", {items[0]: 2, items[1]: 2})
    assert (desk.answered, desk.enough) == ({"Grace": 3, "Edsger": 2}, False)
    assert run(stage).theatre.state == "SETTLING"
    assert bundles(stage) == []
    assert rate(stage, "Edsger", {items[2]: 5}).enough
    assert run(stage).resolution["outcome"] == "certified"


def rated(folder: Path) -> tuple[Stage, list[str], Finished]:
    """Return a theatre that two people and a half have rated, its items, and its end.

    Seven of eight answers have the right colour. The human mean is (1 + 1/2 + 1/8) / 3 = 13/24.
    """
    stage, items = waiting(folder, {4: WRONG})
    first, second, third = items
    rate(stage, "Grace", {first: 5, second: 4, third: 1})
    rate(stage, "Niklaus", {second: 1})
    rate(stage, "Edsger", {third: 2, first: 5, second: 2})
    return stage, items, run(stage)


def test_enough_people_are_a_part_of_the_score(tmp_path: Path) -> None:
    _, _, finished = rated(tmp_path)
    aggregate = finished.document("scores/aggregate.json")
    # (7/8 + 13/24) / 2, and of that three quarters with a quarter of 7/8.
    assert aggregate["scores"] == {"colour": 0.708333333, "recall": 0.875}
    assert aggregate["composite_score"] == 0.75
    assert aggregate["human_scores"] == {
        "taste": {
            "criterion_id": "colour",
            "share": 0.5,
            "machine": 0.875,
            "human": 0.541666667,
            "items": 3,
            "scorers": 2,
            "agreement": {
                "method": "krippendorff-alpha-interval",
                "value": None,
                "reason": "fewer-than-10-items",
            },
        }
    }
    certificate = finished.document("certificate.json")
    assert certificate["scores"] == aggregate["scores"]
    assert certificate["composite_score"] == 0.75
    intervals = cast("dict[str, JsonObject]", aggregate["score_intervals"])
    methods = {name: interval["method"] for name, interval in intervals.items()}
    assert methods == {"colour": "mixed_clt", "recall": "wilson", "composite_score": "mixed_clt"}


def test_the_bundle_has_every_score_in_order_and_what_the_step_came_to(tmp_path: Path) -> None:
    stage, items, finished = rated(tmp_path)
    first, second, third = items
    given = [
        ("Grace", first, 5),
        ("Grace", second, 4),
        ("Grace", third, 1),
        ("Niklaus", second, 1),
        ("Edsger", third, 2),
        ("Edsger", first, 5),
        ("Edsger", second, 2),
    ]
    times = [entry["at"] for entry in finished.trail if entry["event_type"] == "human_score"]
    lines = b"".join(
        canonical_line(
            {"scorer": scorer, "episode_id": item, "score": score, "comment": None, "at": at}
        )
        for (scorer, item, score), at in zip(given, times, strict=True)
    )
    assert (finished.bundle / "hitl" / "taste.jsonl").read_bytes() == lines
    assert details(finished.trail, "human_score") == [
        {"step_id": "taste", "scorer": scorer, "episode_id": item, "score": score, "comment": None}
        for scorer, item, score in given
    ]
    assert finished.steps()[1] == {
        "step_id": "taste",
        "type": "hitl_rubric",
        "status": "completed",
        "result": {"items": 3, "scorers": 2, "human_mean": 0.541666667},
    }
    assert events(finished.trail) == [
        *("settling", "hitl_opened"),
        *["human_score"] * 7,
        *("step_completed", "step_completed", "sealed", "resolved"),
    ]
    sealed = finished.lines("audit_trail.jsonl")
    assert sealed == finished.trail[: len(sealed)]
    assert stage.state == "RESOLVED"


def test_the_same_scores_give_the_same_results_hash(tmp_path: Path) -> None:
    hashes = {str(rated(tmp_path / name)[2].resolution["results_hash"]) for name in "ab"}
    assert len(hashes) == 1


def test_another_score_gives_another_results_hash(tmp_path: Path) -> None:
    _, _, finished = rated(tmp_path / "a")
    stage, items = waiting(tmp_path / "b", {4: WRONG})
    for scorer in ("Grace", "Edsger"):
        rate(stage, scorer, dict.fromkeys(items, 3))
    assert run(stage).resolution["results_hash"] != finished.resolution["results_hash"]


def test_everybody_who_rated_every_item_counts_not_only_the_first(tmp_path: Path) -> None:
    stage, items = waiting(tmp_path)
    for scorer, score in (("Grace", 1), ("Edsger", 1), ("Niklaus", 4)):
        rate(stage, scorer, dict.fromkeys(items, score))
    result = cast("JsonObject", run(stage).steps()[1]["result"])
    assert result == {"items": 3, "scorers": 3, "human_mean": 0.25}


def test_where_fewer_episodes_were_scored_all_of_them_are_items(tmp_path: Path) -> None:
    stage = rated_stage(tmp_path, episodes(3, {1: REFUSED}), ratings=[rating(items=20)])
    (opened,) = details(run(stage).trail, "hitl_opened")
    assert opened["items"] == drawn(stage, ["pilot-2", "pilot-3"], 20)


def test_a_rating_without_a_share_is_published_and_changes_no_score(tmp_path: Path) -> None:
    no_share = {name: value for name, value in rating().items() if name != "share"}
    alone = {name: value for name, value in no_share.items() if name != "criterion_id"}
    for entry, machine in ((no_share, 1), (alone, None)):
        stage = rated_stage(tmp_path / str(machine), episodes(4), ratings=[entry])
        (opened,) = details(run(stage).trail, "hitl_opened")
        for scorer in ("Grace", "Edsger"):
            rate(stage, scorer, dict.fromkeys(cast("list[str]", opened["items"]), 2))
        aggregate = run(stage).document("scores/aggregate.json")
        human = cast("dict[str, JsonObject]", aggregate["human_scores"])["taste"]
        assert aggregate["scores"] == {"colour": 1, "recall": 1}
        assert [human[name] for name in ("share", "machine", "human", "scorers")] == [
            *(None, machine, 0.25, 2)
        ]
        assert human["criterion_id"] == ("colour" if machine else None)


def test_a_rating_behind_the_aggregation_is_in_the_resolution_alone(tmp_path: Path) -> None:
    entry = {n: v for n, v in rating().items() if n not in {"share", "criterion_id"}}
    stage = rated_stage(tmp_path, episodes(4), steps=[AGGREGATE, rubric_step()], ratings=[entry])
    (opened,) = details(run(stage).trail, "hitl_opened")
    for scorer in ("Grace", "Edsger"):
        rate(stage, scorer, dict.fromkeys(cast("list[str]", opened["items"]), 2))
    finished = run(stage)
    assert finished.document("scores/aggregate.json")["human_scores"] is None
    assert finished.steps()[2]["result"] == {"items": 3, "scorers": 2, "human_mean": 0.25}
    assert (finished.bundle / "hitl" / "taste.jsonl").is_file()


def test_two_panels_are_asked_one_after_the_other(tmp_path: Path) -> None:
    stage = rated_stage(
        tmp_path,
        episodes(6),
        steps=[rubric_step(), rubric_step("memory"), AGGREGATE],
        ratings=[rating(), rating("memory", criterion_id="recall", share=1, items=2)],
    )
    (opened,) = details(run(stage).trail, "hitl_opened")
    with pytest.raises(HumanScoreRefusedError, match="step-not-open"):
        rate(stage, "Grace", {"pilot-1": 3}, step_id="memory")
    for scorer in ("Grace", "Edsger"):
        rate(stage, scorer, dict.fromkeys(cast("list[str]", opened["items"]), 3))
    _, opened = details(run(stage).trail, "hitl_opened")
    assert (opened["step_id"], opened["items"]) == ("memory", drawn(stage, ALL[:6], 2))
    for scorer in ("Grace", "Edsger"):
        rate(stage, scorer, dict.fromkeys(cast("list[str]", opened["items"]), 2))
    finished = run(stage)
    assert finished.document("scores/aggregate.json")["scores"] == {"colour": 0.75, "recall": 0.25}
    assert sorted(path.name for path in (finished.bundle / "hitl").iterdir()) == [
        *("memory.jsonl", "taste.jsonl")
    ]


def test_two_ratings_of_one_criterion_are_one_finding(tmp_path: Path) -> None:
    by_anyone: JsonObject = {"scorer_must_not_be_author": False, "minimum_scorers": 1}
    entries = [rating(name, identity_separation=by_anyone) for name in ("taste", "depth")]
    del entries[1]["share"]
    steps = [rubric_step("taste"), rubric_step("depth"), AGGREGATE]
    stage = rated_stage(tmp_path, episodes(4), steps=steps, ratings=entries)
    for _ in entries:
        stage.run(ScriptedAdapter())
        rate(stage, "Grace", dict.fromkeys(desk_of(stage).rubric.items, 4))
    finished = stage.run(ScriptedAdapter())
    assert checked(finished.bundle).consistent
    assert verify(finished.bundle, now=LATE).word == "consistent"


def test_the_authors_are_noted_when_the_run_begins_and_only_where_people_rate(
    tmp_path: Path,
) -> None:
    stage = rated_stage(tmp_path, episodes(2), changes=CHAIN)
    adapters = {EASEL: ScriptedAdapter(version=EASEL_VERSION), "pilot": ScriptedAdapter()}
    finished = stage.run(adapters)
    (activated,) = details(finished.trail, "activated")
    assert activated["authors"] == {EASEL: None, "pilot": None}


def test_a_rehearsal_asks_nobody(tmp_path: Path) -> None:
    stage = rated_stage(tmp_path, episodes(4))
    finished = stage.run(ScriptedAdapter(), certificate_run=False)
    assert finished.resolution["outcome_reason"] == "rehearsal"
    assert events(finished.trail) == ["settling", "resolved"]


def test_where_nothing_was_scored_nobody_is_asked(tmp_path: Path) -> None:
    stage = rated_stage(tmp_path, episodes(3, dict.fromkeys(range(1, 4), REFUSED)))
    finished = run(stage)
    assert finished.resolution["outcome_reason"] == "nothing-scored"
    assert events(finished.trail) == ["settling", "resolved"]


class PowerCut(BaseException):
    """The process is about to be gone."""


class CutJournal(FileRunJournal):
    """The journal of a process that dies behind its n-th entry."""

    left = 0

    async def note(self, event: AuditEvent) -> JsonObject:
        entry = await super().note(event)
        self.left -= 1
        if not self.left:
            raise PowerCut
        return entry


def test_a_process_that_dies_behind_any_entry_loses_nothing_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    """The whole course, killed behind each entry of the programme in turn, comes to the same."""
    _, _, undisturbed = rated(tmp_path / "whole")
    wanted = events(undisturbed.trail)
    cuts = 0
    for cut in range(1, 30):
        stage = rated_stage(tmp_path / str(cut), episodes(8, {4: WRONG}))
        cuts += run_until_cut(stage, cut)
        items = cast("list[str]", details(run(stage).trail, "hitl_opened")[0]["items"])
        first, second, third = items
        rate(stage, "Grace", {first: 5, second: 4, third: 1})
        rate(stage, "Niklaus", {second: 1})
        rate(stage, "Edsger", {third: 2, first: 5, second: 2})
        cuts += run_until_cut(stage, cut)
        if stage.state != "RESOLVED":
            run(stage)
        trail = trail_of(stage)
        assert events(trail) == wanted
        resolved = cast("JsonObject", trail[-1]["detail"])
        assert resolved["results_hash"] == undisturbed.resolution["results_hash"]
        if not cuts:
            return
        cuts = 0
    raise AssertionError("expected a cut behind the last entry of the run")


def run_until_cut(stage: Stage, cut: int) -> bool:
    """Run with a journal that dies behind entry `cut`; tell whether it came to that."""
    journal = CutJournal(stage.folder, stage.theatre_id)
    journal.left = cut
    try:
        stage.run(ScriptedAdapter(answer_as_asked), journal=lambda _: journal)
    except PowerCut:
        return True
    return False


def test_a_bundle_that_is_sealed_is_not_sealed_again(tmp_path: Path) -> None:
    stage, items = waiting(tmp_path)
    for scorer in ("Grace", "Edsger"):
        rate(stage, scorer, dict.fromkeys(items, 3))
    # Both steps, then the entry `sealed`: the bundle has its name before the last of them.
    assert run_until_cut(stage, 3)
    (bundle,) = bundles(stage)
    before = (stage.folder / bundle / "certificate.json").read_bytes()
    with pytest.raises(InvalidTransitionError):
        rate(stage, "Niklaus", dict.fromkeys(items, 1))
    assert run(stage).resolution["outcome"] == "certified"
    assert (stage.folder / bundle / "certificate.json").read_bytes() == before


def test_nothing_is_taken_in_between_the_last_step_and_the_sealing(tmp_path: Path) -> None:
    """The sealed bundle holds the end of the chain: an entry in between would part them."""
    stage, items = waiting(tmp_path)
    for scorer in ("Grace", "Edsger"):
        rate(stage, scorer, dict.fromkeys(items, 3))
    assert run_until_cut(stage, 2)
    before = trail_of(stage)
    for scorer in ("Niklaus", "Ada Author", ""):
        with pytest.raises(InvalidTransitionError) as caught:
            rate(stage, scorer, dict.fromkeys(items, 1))
        assert "without an open rubric" in str(caught.value)
    assert trail_of(stage) == before
    assert run(stage).resolution["outcome"] == "certified"
