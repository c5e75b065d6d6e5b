"""Repeats: the committed sample is called twice, and an answer that differs is not forgiven."""

import asyncio
import hmac
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from tests.theatre.arrivals import HeldAdapter, answered_one_by_one, play
from tests.theatre.runs import (
    CHAIN,
    COIN,
    EASEL,
    EASEL_VERSION,
    ERROR,
    EXPECTED,
    PILOT,
    REFUSED,
    Answer,
    Finished,
    ScriptedAdapter,
    Stage,
    answer_as_asked,
    episodes,
    pilot_stage,
    right,
)
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.coin import Draws
from theatre.engine.oracle_contract import OracleInvocationRequest

SAMPLE = "/execution_policy/deterministic_sample"
EPISODES = 60


def committed_sample(commitment_hash: str, episode_ids: list[str], size: int) -> list[str]:
    """Return the sample as docs/contract/evidence.md §7 gives it, in the order of the draws."""
    key = hmac.digest(COIN.secret, b"", "sha256")
    digests = {
        episode_id: hmac.digest(
            key, rfc8785.dumps(["repeat", commitment_hash, episode_id]), "sha256"
        )
        for episode_id in episode_ids
    }
    return sorted(episode_ids, key=digests.__getitem__)[:size]


def sampled(stage: Stage, size: int, *, total: int = EPISODES) -> list[int]:
    """Return the `seq` of the episodes that are to be called twice, ascending."""
    ids = [f"pilot-{seq}" for seq in range(1, total + 1)]
    chosen = committed_sample(stage.receipt.commitment_hash, ids, size)
    return sorted(int(one.removeprefix("pilot-")) for one in chosen)


def stage_with(
    folder: Path,
    size: int,
    answers: Mapping[int, JsonObject] | None = None,
    changes: Mapping[str, JsonValue] | None = None,
) -> Stage:
    return pilot_stage(
        folder,
        episodes(EPISODES, answers),
        changes={SAMPLE: size, "/execution_policy/on_threshold": "continue", **(changes or {})},
    )


def repeated(finished: Finished) -> list[int]:
    """Return the episodes with a second round in their record."""
    return [
        seq
        for seq in range(1, EPISODES + 1)
        if any(call["repeat"] == 1 for call in finished.calls(seq))
    ]


def facts(finished: Finished) -> dict[str, Any]:
    return cast("dict[str, Any]", finished.document("tier.json")["facts"])


def caps(finished: Finished) -> list[str]:
    return cast("list[str]", finished.document("certificate.json")["caps"])


def second_time(changed: Answer, *, only: set[int] | None = None) -> Answer:
    """Return a construct that answers rightly, and as `changed` where it is called again."""
    known: set[str] = set()

    def answer(request: OracleInvocationRequest) -> JsonObject:
        again = request.episode_id in known
        known.add(request.episode_id)
        asked = request.input_data.get("episode", request.input_data)
        changes = again and (only is None or asked["seq"] in only)
        return changed(request) if changes else right(request)

    return answer


@given(
    st.text("0123456789abcdef", min_size=64, max_size=64),
    st.lists(st.text(min_size=1, max_size=5), unique=True, max_size=30),
    st.integers(0, 40),
)
def test_everybody_can_recompute_the_sample(
    commitment_hash: str, ids: list[str], size: int
) -> None:
    expected = committed_sample(commitment_hash, ids, size)
    assert Draws(COIN, commitment_hash).repeated(iter(ids), size) == frozenset(expected)


@pytest.mark.parametrize("size", [1, 7, EPISODES, EPISODES + 5])
def test_the_committed_sample_is_called_a_second_time_and_nobody_else(
    tmp_path: Path, size: int
) -> None:
    stage = stage_with(tmp_path, size)
    construct = ScriptedAdapter()
    finished = stage.run(construct)
    sample = sampled(stage, size)
    assert len(sample) == min(size, EPISODES)
    assert repeated(finished) == sample
    called = [request.input_data["seq"] for request in construct.asked]
    assert sorted(called) == sorted([*range(1, EPISODES + 1), *sample])
    assert (facts(finished)["determinism_differences"], facts(finished)["replay_count"]) == (0, 60)
    assert finished.document("certificate.json")["verification_tier"] == "BACKTESTED"


def test_another_commitment_draws_another_sample(tmp_path: Path) -> None:
    one = stage_with(tmp_path / "one", 7)
    other = stage_with(tmp_path / "other", 7, changes={"/display_name": "Another"})
    assert repeated(other.run(ScriptedAdapter())) == sampled(other, 7) != sampled(one, 7)


def test_a_second_call_has_an_id_of_its_own_and_the_same_input(tmp_path: Path) -> None:
    stage = stage_with(tmp_path, 1)
    finished = stage.run(ScriptedAdapter())
    (seq,) = sampled(stage, 1)
    first, second = (cast("JsonObject", call["request"]) for call in finished.calls(seq))
    assert [first["invocation_id"], second["invocation_id"]] == [
        stage.draws.invocation_id(stage.theatre_id, seq=seq, repeat=repeat) for repeat in (0, 1)
    ]
    assert first["input_data"] == second["input_data"] == {"seq": seq}


@pytest.mark.parametrize(("size", "deterministic"), [(0, False), (1, True)])
def test_every_call_of_a_theatre_with_repeats_says_that_it_wants_to_be_deterministic(
    tmp_path: Path, *, size: int, deterministic: bool
) -> None:
    construct = ScriptedAdapter()
    stage_with(tmp_path, size).run(construct)
    assert {request.metadata.deterministic for request in construct.asked} == {deterministic}


def test_equal_answers_differ_in_nothing_but_their_canonical_form(tmp_path: Path) -> None:
    """1 and 1.0 are one number, and members have no order."""

    def reordered(_: OracleInvocationRequest) -> JsonObject:
        return {"output_data": {"recall": 0.50, "colour": "red"}}

    finished = stage_with(tmp_path, 5).run(ScriptedAdapter(second_time(reordered)))
    assert (facts(finished)["determinism_differences"], caps(finished)[:1]) == (0, ["runs-below-3"])


SCATTERED: JsonObject = {"output_data": {"colour": "red", "recall": 0.5000001}}


@pytest.mark.parametrize(
    "changed",
    [SCATTERED, ERROR, REFUSED, {"construct_version": "deadbeef" * 8, "output_data": EXPECTED}],
    ids=["another answer", "an error", "a refusal", "another version"],
)
def test_a_second_answer_that_is_another_one_is_counted_and_caps_the_tier(
    tmp_path: Path, changed: JsonObject
) -> None:
    stage = stage_with(tmp_path, 5)
    different = set(sampled(stage, 5)[:3])
    construct = ScriptedAdapter(second_time(lambda _: changed, only=different))
    finished = stage.run(construct)
    assert repeated(finished) == sampled(stage, 5)
    seen = facts(finished)
    assert (seen["determinism_differences"], seen["replay_count"], seen["failures"]) == (3, 60, 0)
    assert "answers-not-deterministic" in caps(finished)
    assert finished.document("certificate.json")["verification_tier"] == "UNVERIFIED"
    # The first answer is the episode's: nothing is scored on the second.
    assert finished.document("scores/aggregate.json")["scores"] == {"colour": 1, "recall": 1}
    assert [entry for entry in finished.trail if "failed" in str(entry["event_type"])] == []


def test_a_construct_that_never_says_the_same_twice_differs_in_the_whole_sample(
    tmp_path: Path,
) -> None:
    numbers = count()

    def counting(_: OracleInvocationRequest) -> JsonObject:
        return {"output_data": {**EXPECTED, "n": next(numbers)}}

    finished = stage_with(tmp_path, 9).run(ScriptedAdapter(counting))
    assert facts(finished)["determinism_differences"] == 9


def test_without_a_sample_nobody_is_called_twice(tmp_path: Path) -> None:
    numbers = count()
    construct = ScriptedAdapter(lambda _: {"output_data": {**EXPECTED, "n": next(numbers)}})
    finished = stage_with(tmp_path, 0).run(construct)
    assert (len(construct.asked), facts(finished)["determinism_differences"]) == (EPISODES, 0)


@pytest.mark.parametrize("answer", [ERROR, REFUSED])
def test_an_episode_that_failed_is_not_repeated(tmp_path: Path, answer: JsonObject) -> None:
    everything = dict.fromkeys(range(1, EPISODES), answer)
    stage = stage_with(tmp_path, EPISODES, everything)
    construct = ScriptedAdapter(answer_as_asked)
    finished = stage.run(construct)
    assert repeated(finished) == [EPISODES]
    assert (len(construct.asked), facts(finished)["determinism_differences"]) == (EPISODES + 1, 0)


def test_a_second_round_is_retried_by_the_policy_and_may_succeed_then(tmp_path: Path) -> None:
    stage = stage_with(
        tmp_path,
        1,
        changes={"/execution_policy/retry_policy": {"max_retries": 1, "backoff_seconds": 0}},
    )
    (seq,) = sampled(stage, 1)
    tries = count()

    def stumbling(request: OracleInvocationRequest) -> JsonObject:
        if request.input_data["seq"] == seq:
            return ERROR if next(tries) == 1 else right(request)
        return right(request)

    finished = stage.run(ScriptedAdapter(stumbling))
    attempts = [len(cast("list[JsonValue]", call["attempts"])) for call in finished.calls(seq)]
    assert (attempts, facts(finished)["determinism_differences"]) == ([1, 2], 0)


def chained(easel: Answer, pilot: Answer) -> dict[str, ScriptedAdapter]:
    return {EASEL: ScriptedAdapter(easel, version=EASEL_VERSION), PILOT: ScriptedAdapter(pilot)}


def test_a_chain_is_repeated_at_every_hop_with_the_outputs_of_its_own_round(tmp_path: Path) -> None:
    stage = stage_with(tmp_path, 1, changes=CHAIN)
    (seq,) = sampled(stage, 1)
    finished = stage.run(chained(second_time(lambda _: SCATTERED), right))
    calls = finished.calls(seq)
    assert [(call["repeat"], call["hop"]) for call in calls] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    requests = [cast("dict[str, Any]", call["request"]) for call in calls]
    assert [request["invocation_id"] for request in requests] == [
        stage.draws.invocation_id(stage.theatre_id, seq=seq, hop=hop, repeat=repeat)
        for repeat, hop in ((0, 0), (0, 1), (1, 0), (1, 1))
    ]
    upstream = [requests[n]["input_data"]["upstream"] for n in (1, 3)]
    assert upstream == [{EASEL: EXPECTED}, {EASEL: SCATTERED["output_data"]}]
    # The last output is the same: what differs is one in between.
    assert facts(finished)["determinism_differences"] == 1


def test_a_second_round_ends_at_the_hop_that_fails(tmp_path: Path) -> None:
    stage = stage_with(tmp_path, 1, changes=CHAIN)
    (seq,) = sampled(stage, 1)
    finished = stage.run(chained(second_time(lambda _: ERROR), right))
    rounds = [(call["repeat"], call["hop"]) for call in finished.calls(seq)]
    assert rounds == [(0, 0), (0, 1), (1, 0)]
    assert facts(finished)["determinism_differences"] == 1


def test_what_differs_behind_the_end_of_a_run_is_no_fact(tmp_path: Path) -> None:
    """Of sixteen at a time the later ones are answered twice, discarded, and count nowhere."""
    failing = dict.fromkeys((2, 3, 4, 5, 6), ERROR)
    stage = pilot_stage(
        tmp_path,
        episodes(20, failing),
        changes={SAMPLE: 20, "/execution_policy/max_concurrency": 16},
    )
    numbers = count()

    def counting(request: OracleInvocationRequest) -> JsonObject:
        if "answer" in request.input_data:
            return answer_as_asked(request)
        return {"output_data": {**EXPECTED, "n": next(numbers)}}

    construct = HeldAdapter(counting)

    async def scene() -> Finished:
        run = asyncio.create_task(stage.perform(construct, batch_size=100))
        return await answered_one_by_one(run, construct, lambda out: out[-1])

    finished = play(scene)
    assert finished.steps()[0]["result"] == {"episodes_recorded": 6, "episodes_discarded": 14}
    assert all(len(finished.calls(seq)) == 2 for seq in (1, *range(7, 21)))
    assert facts(finished)["determinism_differences"] == 1
