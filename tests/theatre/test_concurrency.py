"""Several calls at a time: the same results whatever the arrival, and nothing else at risk."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theatre.arrivals import (
    EPISODES,
    SIXTEEN,
    HeldAdapter,
    HeldJournal,
    answered_one_by_one,
    never,
    play,
    settle,
    sixteen,
    until,
)
from tests.theatre.conftest import run_small_theatre
from tests.theatre.runs import (
    ERROR,
    REFUSED,
    WRONG,
    Finished,
    ScriptedAdapter,
    Stage,
    answer_as_asked,
    checked,
    episodes,
    pilot_stage,
)
from theatre.engine.audit_chain import verify_chain
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import InvocationStatus
from theatre.engine.replay import Progress

SOAK = bool(os.environ.get("ECHELON_SOAK"))
THRESHOLD = 4.8
"""A fifth of the episodes: the fifth failure ends a run."""
CROSSING: Mapping[int, JsonObject] = {
    **dict.fromkeys((3, 6, 7, 11, 12, 20), ERROR),
    5: REFUSED,
    9: WRONG,
}
END = 12
"""Where CROSSING ends a run."""


def recorded(finished: Finished) -> list[int]:
    """Return the episodes that have a record in the bundle."""
    files = (finished.bundle / "invocations").iterdir()
    return sorted(int(path.stem.removeprefix("episode_")) for path in files)


def results(finished: Finished) -> tuple[object, ...]:
    """Return all that the committed template and the answers alone decide."""
    return (
        (finished.bundle / "scores" / "per_episode.jsonl").read_bytes(),
        finished.document("scores/aggregate.json"),
        finished.document("tier.json")["facts"],
        finished.document("certificate.json")["results_hash"],
    )


def in_turn(numbers: Sequence[int]) -> Callable[[Sequence[int]], int]:
    """Return a choice that takes the number's place among those that are out."""
    drawn = iter(numbers)
    return lambda out: out[next(drawn) % len(out)]


def newest(out: Sequence[int]) -> int:
    return out[-1]


def oldest(out: Sequence[int]) -> int:
    return out[0]


def released(
    stage: Stage,
    choose: Callable[[Sequence[int]], int],
    *,
    construct: HeldAdapter | None = None,
    concurrency_limit: int | None = None,
) -> Finished:
    """Run with answers that arrive as chosen."""
    adapter = construct or HeldAdapter(answer_as_asked)

    async def scene() -> Finished:
        run = asyncio.create_task(
            stage.perform(adapter, concurrency_limit=concurrency_limit, batch_size=100)
        )
        return await answered_one_by_one(run, adapter, choose)

    return play(scene)


def end_of_run(failing: set[int]) -> int:
    """Return the last episode that counts: by counting, not by the engine's rule."""
    for seq in range(1, EPISODES + 1):
        if len([one for one in failing if one <= seq]) > THRESHOLD:
            return seq
    return EPISODES


@settings(deadline=None, max_examples=300 if SOAK else 20)
@given(
    # The first one is answered well, so that there is a bundle to look into.
    failing=st.sets(st.integers(2, EPISODES), max_size=14),
    limit=st.integers(2, 16),
    order=st.lists(st.integers(0, 15), min_size=EPISODES, max_size=EPISODES),
)
def test_the_order_of_arrival_decides_nothing(
    tmp_path_factory: pytest.TempPathFactory, failing: set[int], limit: int, order: list[int]
) -> None:
    answers = {5: REFUSED, 9: WRONG, **dict.fromkeys(failing, ERROR)}
    folder = tmp_path_factory.mktemp("arrivals")
    alone = sixteen(folder / "alone", answers).run(
        ScriptedAdapter(answer_as_asked), concurrency_limit=1
    )
    construct = HeldAdapter(answer_as_asked)
    together = released(
        sixteen(folder / "together", answers),
        in_turn(order),
        construct=construct,
        concurrency_limit=limit,
    )

    assert results(together) == results(alone)
    end = end_of_run(failing)
    assert recorded(alone) == list(range(1, end + 1))
    # Every answer that was let in is kept, every other call is given up.
    assert recorded(together) == sorted(construct.answered)
    assert sorted(construct.answered + construct.given_up) == sorted(construct.called)
    assert set(construct.answered) >= set(range(1, end + 1))
    assert together.steps()[0]["result"] == {
        "episodes_recorded": end,
        "episodes_discarded": len(construct.answered) - end,
    }
    verify_chain(together.lines("audit_trail.jsonl"), theatre_id=together.theatre.theatre_id)


@pytest.mark.parametrize("limit", [1, 3, 16, None])
@pytest.mark.parametrize("choose", [oldest, newest])
def test_the_same_commitment_gives_the_same_results_at_any_concurrency(
    tmp_path: Path, limit: int | None, choose: Callable[[Sequence[int]], int]
) -> None:
    reference = sixteen(tmp_path / "reference", CROSSING).run(
        ScriptedAdapter(answer_as_asked), concurrency_limit=1
    )
    finished = released(sixteen(tmp_path / "run", CROSSING), choose, concurrency_limit=limit)
    assert results(finished) == results(reference)
    lines = finished.lines("scores/per_episode.jsonl")
    assert [line["outcome"] for line in lines[END - 2 :]] == [
        "missing",
        "missing",
        *["not_run"] * (EPISODES - END),
    ]


@pytest.mark.parametrize("answers", [CROSSING, {5: REFUSED, 7: ERROR, 9: WRONG}])
def test_a_template_for_sixteen_calls_gives_the_results_of_one_for_a_single_call(
    tmp_path: Path, answers: dict[int, JsonObject]
) -> None:
    """Without a holdout the commitment hash decides nothing that is in the results."""
    finished = {
        committed: released(
            pilot_stage(
                tmp_path / str(committed),
                episodes(EPISODES, answers),
                changes={
                    "/execution_policy/max_concurrency": committed,
                    "/scoring/holdout_split": 0,
                },
            ),
            newest,
        )
        for committed in (1, 16)
    }
    hashes = [
        run.document("commitment_receipt.json")["commitment_hash"] for run in finished.values()
    ]
    assert hashes[0] != hashes[1]
    lines, aggregate = {}, {}
    for committed, run in finished.items():
        lines[committed] = (run.bundle / "scores" / "per_episode.jsonl").read_bytes()
        aggregate[committed] = run.document("scores/aggregate.json")["results_hash"]
    assert lines[16] == lines[1]
    assert aggregate[16] == aggregate[1]


def test_an_answer_behind_the_end_is_kept_as_discarded_and_counts_in_nothing(
    tmp_path: Path,
) -> None:
    mismatch: JsonObject = {"construct_version": "deadbeef" * 8, "output_data": {}}
    answers = {**CROSSING, 14: mismatch, 15: REFUSED, 16: ERROR}
    alone = sixteen(tmp_path / "alone", answers).run(
        ScriptedAdapter(answer_as_asked), concurrency_limit=1
    )
    construct = HeldAdapter(answer_as_asked)
    # 1 … 16 go out; 13 … 16 are answered first, and the rest in order.
    order = iter([13, 14, 15, 16, *range(1, END + 1)])
    finished = released(
        sixteen(tmp_path / "together", answers), lambda _: next(order), construct=construct
    )

    assert results(finished) == results(alone)
    assert finished.steps()[0]["result"] == {"episodes_recorded": 12, "episodes_discarded": 4}
    assert recorded(finished) == list(range(1, 17))
    assert sorted(construct.given_up) == list(range(17, EPISODES + 1))
    counts = cast("JsonObject", finished.document("scores/aggregate.json")["episode_counts"])
    assert (counts["error"], counts["refused"], counts["not_run"]) == (5, 1, 12)
    facts = cast("JsonObject", finished.document("tier.json")["facts"])
    assert (facts["version_mismatches"], facts["failures"], facts["refusals"]) == (0, 5, 1)
    covered = [
        seq
        for entry in finished.trail
        if entry["event_type"] == "episodes_recorded"
        for first, last in cast("dict[str, list[list[int]]]", entry["detail"])["seqs"]
        for seq in range(first, last + 1)
    ]
    assert sorted(covered) == list(range(1, 17))
    assert [check.as_document() for check in checked(finished.bundle).failed] == []
    troubled = [
        cast("JsonObject", entry["detail"])["seq"]
        for entry in finished.trail
        if entry["event_type"] in {"episode_failed", "episode_refused"}
    ]
    assert troubled == [3, 5, 6, 7, 11, 12, 14, 15, 16]


def test_a_slow_failure_ends_the_run_though_all_later_answers_came_before_it(
    tmp_path: Path,
) -> None:
    order = iter([*range(1, END), *range(END + 1, EPISODES + 1), END])
    construct = HeldAdapter(answer_as_asked)
    stage = sixteen(tmp_path, CROSSING)
    finished = released(stage, lambda _: next(order), construct=construct)
    assert finished.steps()[0]["result"] == {
        "episodes_recorded": END,
        "episodes_discarded": EPISODES - END,
    }
    assert (construct.given_up, recorded(finished)) == ([], list(range(1, EPISODES + 1)))


def test_what_an_earlier_process_recorded_behind_the_end_is_discarded_alike(tmp_path: Path) -> None:
    reference = sixteen(tmp_path / "reference", CROSSING).run(ScriptedAdapter(answer_as_asked))
    stage = sixteen(tmp_path / "run", CROSSING)
    construct = HeldAdapter(answer_as_asked)

    async def scene() -> None:
        run = asyncio.create_task(stage.perform(construct, batch_size=100))
        await until(lambda: len(construct.out) == 16)
        construct.let_in(2, 3, 13, 14, 16)
        await until(lambda: len(construct.answered) == 5)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    play(scene)
    again = ScriptedAdapter(answer_as_asked)
    finished = stage.run(again, concurrency_limit=1)
    assert results(finished) == results(reference)
    assert [request.input_data["seq"] for request in again.asked] == [1, *range(4, END + 1)]
    assert finished.steps()[0]["result"] == {"episodes_recorded": END, "episodes_discarded": 3}
    assert recorded(finished) == [*range(1, END + 1), 13, 14, 16]


@pytest.mark.parametrize(
    ("committed", "limit", "most"),
    [(16, None, 16), (16, 3, 3), (16, 16, 16), (16, 400, 16), (5, 16, 5), (1, 16, 1), (1, None, 1)],
)
def test_as_many_calls_are_out_as_were_committed_or_as_the_limit_says_and_never_more(
    tmp_path: Path, committed: int, limit: int | None, most: int
) -> None:
    changes: dict[str, JsonValue] = {"/execution_policy/max_concurrency": committed}
    stage = pilot_stage(tmp_path, episodes(40), changes=changes)
    construct = HeldAdapter()
    released(stage, newest, construct=construct, concurrency_limit=limit)
    assert (construct.most_out, sorted(construct.called)) == (most, list(range(1, 41)))


def test_progress_tells_how_many_answers_are_in_whichever_they_are(tmp_path: Path) -> None:
    seen: list[Progress] = []
    stage = pilot_stage(tmp_path, episodes(3, {2: REFUSED}), changes=SIXTEEN)
    construct = HeldAdapter(answer_as_asked)

    async def scene() -> Finished:
        run = asyncio.create_task(
            stage.perform(construct, around=lambda around: replace(around, on_progress=seen.append))
        )
        order = iter([2, 3, 1])
        return await answered_one_by_one(run, construct, lambda _: next(order))

    play(scene)
    success, refused = InvocationStatus.SUCCESS, InvocationStatus.REFUSED
    assert seen == [
        Progress(done=0, total=3),
        Progress(done=1, total=3, status=refused, latency_ms=7),
        Progress(done=2, total=3, status=success, latency_ms=7),
        Progress(done=3, total=3, status=success, latency_ms=7),
    ]


def test_a_local_construct_that_takes_one_call_at_a_time_gives_the_same_results(
    tmp_path: Path,
) -> None:
    """Its sixteen callers wait for each other; a call that hangs costs none of them its time."""
    lines = []
    for committed in (1, 16):
        finished = run_small_theatre(
            tmp_path / str(committed),
            template_changes={
                "/execution_policy/max_concurrency": committed,
                "/scoring/holdout_split": 0,
            },
        )
        lines.append((finished.sealed / "scores" / "per_episode.jsonl").read_bytes())
    assert lines[0] == lines[1]


def test_calls_go_out_in_dataset_order(tmp_path: Path) -> None:
    construct = HeldAdapter()
    released(sixteen(tmp_path, {}), newest, construct=construct)
    assert construct.called == list(range(1, EPISODES + 1))
    assert construct.answered != construct.called


@pytest.mark.parametrize(
    ("batch_size", "limit", "most"),
    [(10, 4, 10), (10, 1, 10), (16, 16, 16), (100, 16, 40), (1, 1, 1), (10, 16, 16)],
)
def test_no_more_than_a_batch_of_begun_calls_is_ever_not_durable(
    tmp_path: Path, batch_size: int, limit: int, most: int
) -> None:
    """Where a batch is smaller than the calls that may be out, these are the limit."""
    stage = pilot_stage(tmp_path, episodes(40), changes=SIXTEEN)
    journals: list[HeldJournal] = []
    construct = ScriptedAdapter()
    at_risk: list[int] = []

    def held(journal: object) -> HeldJournal:
        journals.append(HeldJournal(cast("HeldJournal", journal)))
        return journals[0]

    async def scene() -> Finished:
        run = asyncio.create_task(
            stage.perform(
                construct,
                batch_size=batch_size,
                concurrency_limit=limit,
                journal=held,
                around=lambda around: replace(around, sleep=never),
            )
        )
        while not run.done():
            await settle()
            if journals[0].waiting:
                at_risk.append(len(construct.asked) - journals[0].durable)
                journals[0].let_through()
        return await run

    finished = play(scene)
    assert max(at_risk) == most
    assert finished.resolution["outcome"] == "certified"
    assert len(construct.asked) == 40
