"""Chains: each construct sees what came before it, and answers for itself."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.runs import (
    CHAIN,
    EASEL,
    EASEL_VERSION,
    ERROR,
    EXPECTED,
    ISOLATED,
    PILOT,
    REFUSED,
    SANITISED,
    VERSION,
    Answer,
    Finished,
    ScriptedAdapter,
    Stage,
    call_step,
    checked,
    episodes,
    pilot_stage,
)
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.errors import PinMismatchError
from theatre.engine.models import Scorer, ScorerKind, ScoringCase
from theatre.engine.oracle_contract import OracleInvocationRequest

STEPS = "/resolution_programme"
MINT, MINT_VERSION = "mint", "d1ce" * 16
THREE: Mapping[str, JsonValue] = {
    "/version_pins/constructs": {PILOT: VERSION, EASEL: EASEL_VERSION, MINT: MINT_VERSION},
    "/product_theatre_config/construct_chain": [EASEL, MINT, PILOT],
}
SEEN: JsonObject = {"shape": "round"}
TASTED: JsonObject = {"taste": ["sweet", 1.5]}


def fixed(output: JsonObject) -> Answer:
    return lambda _: {"output_data": {**output}}


def constructs(
    easel: Answer | None = None, mint: Answer | None = None, pilot: Answer | None = None
) -> dict[str, ScriptedAdapter]:
    return {
        EASEL: ScriptedAdapter(easel or fixed(SEEN), version=EASEL_VERSION),
        MINT: ScriptedAdapter(mint or fixed(TASTED), version=MINT_VERSION),
        PILOT: ScriptedAdapter(pilot or fixed(EXPECTED)),
    }


def failing_at(seq: int, answer: JsonObject, otherwise: JsonObject = SEEN) -> Answer:
    """Return a construct of a chain that answers an episode in another way than all others."""

    def respond(request: OracleInvocationRequest) -> JsonObject:
        asked = request.input_data.get("episode", request.input_data)
        return answer if asked["seq"] == seq else {"output_data": {**otherwise}}

    return respond


def outcomes(finished: Finished) -> list[JsonValue]:
    return [line["outcome"] for line in finished.lines("scores/per_episode.jsonl")]


def request_of(call: JsonObject) -> dict[str, Any]:
    return cast("dict[str, Any]", call["request"])


def last_attempt(call: JsonObject) -> dict[str, Any]:
    return cast("list[dict[str, Any]]", call["attempts"])[-1]


def troubles(finished: Finished) -> list[JsonObject]:
    return [
        cast("JsonObject", entry["detail"])
        for entry in finished.trail
        if entry["event_type"] in {"episode_failed", "episode_refused"}
    ]


def test_each_construct_is_sent_the_episode_and_all_outputs_before_it(tmp_path: Path) -> None:
    called = constructs()
    finished = pilot_stage(tmp_path, episodes(2), changes=THREE).run(called)
    for seq in (1, 2):
        inputs = {name: called[name].asked[seq - 1].input_data for name in called}
        assert inputs == {
            EASEL: {"seq": seq},
            MINT: {"episode": {"seq": seq}, "upstream": {EASEL: SEEN}},
            PILOT: {"episode": {"seq": seq}, "upstream": {EASEL: SEEN, MINT: TASTED}},
        }
        calls = finished.calls(seq)
        assert [(call["hop"], call["repeat"], call["construct_id"]) for call in calls] == [
            (0, 0, EASEL),
            (1, 0, MINT),
            (2, 0, PILOT),
        ]
        assert [request_of(call)["input_data"] for call in calls] == list(inputs.values())
    assert outcomes(finished) == ["scored", "scored"]
    assert finished.resolution["outcome"] == "certified"


def test_each_call_is_an_envelope_of_its_own(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(2), changes=THREE)
    finished = stage.run(constructs())
    for seq in (1, 2):
        for hop, call in enumerate(finished.calls(seq)):
            request, response = request_of(call), last_attempt(call)["response"]
            name = stage.draws.invocation_id(stage.theatre_id, seq=seq, hop=hop)
            assert (request["invocation_id"], response["invocation_id"]) == (name, name)
            pinned = [(EASEL, EASEL_VERSION), (MINT, MINT_VERSION), (PILOT, VERSION)][hop]
            assert (request["construct_id"], request["construct_version"]) == pinned
            assert (response["construct_id"], response["construct_version"]) == pinned
            alias = stage.draws.alias(f"pilot-{seq}")
            assert (request["episode_id"], call["adapter"]) == (alias, "local@1")
    certificate = finished.document("certificate.json")
    assert certificate["construct_chain_versions"] == {
        EASEL: EASEL_VERSION,
        MINT: MINT_VERSION,
        PILOT: VERSION,
    }
    assert finished.trail[2]["detail"] == {
        "episodes": 2,
        "adapters": dict.fromkeys((EASEL, MINT, PILOT), "local@1"),
        "scorers": {"exact_match": "1", "numeric_tolerance": "1"},
        "computations": {},
        "sanitiser": None,
        "environment": None,
        "previous_environment": None,
        "isolation": {name: ISOLATED.as_document() for name in (EASEL, MINT, PILOT)},
    }


def test_a_scorer_that_changes_what_it_is_shown_changes_no_record(tmp_path: Path) -> None:
    def greedy(case: ScoringCase) -> float:
        for output in case.hops.values():
            output.clear()
        cast("dict[str, JsonObject]", case.hops).clear()
        case.input_data.clear()
        cast("JsonObject", case.expected).clear()
        cast("JsonObject", case.answer).clear()
        return 1.0

    def modest(_: ScoringCase) -> float:
        return 1.0

    changes: dict[str, JsonValue] = {
        **THREE,
        **SANITISED,
        "/execution_policy/deterministic_sample": 2,
        "/scoring/criteria_scorers/colour/params": {},
        "/scoring/criteria_scorers/recall/params": {},
    }
    records = []
    for scorer in (modest, greedy):
        scorers = {
            name: Scorer(
                name=name, version="1", kind=ScorerKind.EXACT, params_schema={}, score=scorer
            )
            for name in ("exact_match", "numeric_tolerance")
        }
        stage = pilot_stage(tmp_path / scorer.__name__, episodes(3), changes=changes)
        finished = stage.run(constructs(), scorers=scorers)
        records.append([finished.record(seq) for seq in (1, 2, 3)])
    assert records[0] == records[1]


@pytest.mark.parametrize(
    ("answer", "outcome", "event"),
    [(ERROR, "missing", "episode_failed"), (REFUSED, "excluded", "episode_refused")],
)
def test_a_hop_that_does_not_succeed_is_the_last_and_is_named(
    tmp_path: Path, answer: JsonObject, outcome: str, event: str
) -> None:
    called = constructs(mint=failing_at(2, answer, TASTED))
    stage = pilot_stage(
        tmp_path, episodes(3), changes={**THREE, "/execution_policy/on_threshold": "continue"}
    )
    finished = stage.run(called)
    assert outcomes(finished) == ["scored", outcome, "scored"]
    assert [call["construct_id"] for call in finished.calls(2)] == [EASEL, MINT]
    assert [request.input_data["episode"]["seq"] for request in called[PILOT].asked] == [1, 3]
    assert [entry["event_type"] for entry in finished.trail[3:5]] == ["episodes_recorded", event]
    assert troubles(finished) == [
        {
            "seq": 2,
            "episode_id": "pilot-2",
            "construct_id": MINT,
            "hop": 1,
            "status": answer["status"],
            "reason": None,
            "error_detail": answer["error_detail"],
        }
    ]


def test_the_first_construct_may_be_the_one_under_test(tmp_path: Path) -> None:
    changes: dict[str, JsonValue] = {
        **CHAIN,
        "/product_theatre_config/construct_chain": [PILOT, EASEL],
        "/scoring/criteria_scorers/colour/params/field": f"{PILOT}:colour",
        "/scoring/criteria_scorers/recall/params/field": f"{PILOT}:recall",
    }
    called = {PILOT: ScriptedAdapter(pin="local@1"), EASEL: constructs()[EASEL]}
    finished = pilot_stage(tmp_path, episodes(60), changes=changes).run(called)
    assert [call["construct_id"] for call in finished.calls(1)] == [PILOT, EASEL]
    assert finished.document("scores/aggregate.json")["scores"] == {"colour": 1, "recall": 1}
    certificate = finished.document("certificate.json")
    assert (certificate["construct_id"], certificate["verification_tier"]) == (PILOT, "BACKTESTED")


def test_scorers_see_the_output_of_every_hop(tmp_path: Path) -> None:
    changes: dict[str, JsonValue] = {
        **THREE,
        "/scoring/criteria_scorers/colour/params/field": f"{MINT}:hue",
    }
    called = constructs(mint=failing_at(2, {"output_data": {"hue": "red"}}, {"hue": "blue"}))
    finished = pilot_stage(tmp_path, episodes(2), changes=changes).run(called)
    lines = finished.lines("scores/per_episode.jsonl")
    assert [cast("JsonObject", line["scores"])["colour"] for line in lines] == [0, 1]


@pytest.mark.parametrize("named", [EASEL, MINT, PILOT])
def test_a_single_step_stands_for_the_whole_chain(tmp_path: Path, named: str) -> None:
    step = call_step(named, timeout_seconds=4)
    finished = pilot_stage(tmp_path, episodes(1), changes={**THREE, STEPS: [step]}).run(
        constructs()
    )
    calls = finished.calls(1)
    assert [call["construct_id"] for call in calls] == [EASEL, MINT, PILOT]
    limits = [request_of(call)["metadata"]["timeout_seconds"] for call in calls]
    assert limits == [4, 4, 4]


def test_each_step_of_a_chain_has_its_own_limit_and_its_own_entry(tmp_path: Path) -> None:
    steps: list[JsonValue] = [
        call_step(EASEL, timeout_seconds=4),
        call_step(MINT),
        call_step(PILOT, timeout_seconds=7),
    ]
    finished = pilot_stage(
        tmp_path,
        episodes(1),
        changes={**THREE, STEPS: steps, "/execution_policy/timeout_seconds": 5},
    ).run(constructs())
    limits = [request_of(call)["metadata"]["timeout_seconds"] for call in finished.calls(1)]
    assert limits == [4, 5, 7]
    done: JsonObject = {"episodes_recorded": 1, "episodes_discarded": 0}
    assert finished.steps() == [
        {
            "step_id": f"call_{name}",
            "type": "construct_invocation",
            "status": "completed",
            "result": done,
        }
        for name in (EASEL, MINT, PILOT)
    ]


def unnamed(folder: Path) -> Finished:
    """Run a chain that the steps alone make."""
    steps: list[JsonValue] = [call_step(EASEL), call_step(MINT), call_step(PILOT)]
    changes = {"/version_pins/constructs": THREE["/version_pins/constructs"], STEPS: steps}
    return pilot_stage(folder, episodes(2), changes=changes).run(constructs())


def test_several_steps_are_a_chain_also_where_none_is_named(tmp_path: Path) -> None:
    calls = unnamed(tmp_path).calls(2)
    assert [(call["hop"], call["construct_id"]) for call in calls] == [
        (0, EASEL),
        (1, MINT),
        (2, PILOT),
    ]
    upstream = request_of(calls[2])["input_data"]["upstream"]
    assert upstream == {EASEL: SEEN, MINT: TASTED}


def test_the_certificate_of_an_unnamed_chain_lists_its_versions(tmp_path: Path) -> None:
    finished = unnamed(tmp_path)
    versions = finished.document("certificate.json")["construct_chain_versions"]
    assert versions == {EASEL: EASEL_VERSION, MINT: MINT_VERSION, PILOT: VERSION}
    assert [check.as_document() for check in checked(finished.bundle).failed] == []


@pytest.mark.parametrize("retries", [0, 2])
def test_each_hop_is_retried_by_the_policy(tmp_path: Path, retries: int) -> None:
    changes: dict[str, JsonValue] = {
        **THREE,
        "/execution_policy/retry_policy": {"max_retries": retries, "backoff_seconds": 0},
        "/execution_policy/on_threshold": "continue",
    }
    called = constructs(mint=failing_at(1, ERROR, TASTED))
    finished = pilot_stage(tmp_path, episodes(2), changes=changes).run(called)
    attempts = [len(cast("list[JsonValue]", call["attempts"])) for call in finished.calls(1)]
    assert attempts == [1, 1 + retries]
    assert len({request.invocation_id for request in called[MINT].asked}) == 2


@pytest.mark.parametrize(
    ("wrong", "hop", "pinned"), [(EASEL, 0, EASEL_VERSION), (PILOT, 2, VERSION)]
)
def test_a_construct_of_the_chain_in_another_version_is_refused_before_any_call(
    tmp_path: Path, wrong: str, hop: int, pinned: str
) -> None:
    stage, version = pilot_stage(tmp_path, episodes(1), changes=THREE), "deadbeef" * 8
    called = constructs()
    called[wrong] = ScriptedAdapter(version=version)
    with pytest.raises(PinMismatchError) as caught:
        stage.run(called)
    assert str(caught.value) == (
        f"expected construct {wrong} (hop {hop}) in version {pinned} (committed), got {version}: "
        "commit a new theatre for the new version, or bring the old one back"
    )
    assert stage.state == "COMMITTED"
    assert [one.asked for one in called.values()] == [[], [], []]


def test_a_version_mismatch_of_any_hop_is_recorded_and_caps_the_tier(tmp_path: Path) -> None:
    other = "deadbeef" * 8
    mismatch: JsonObject = {"construct_version": other, "output_data": {}}
    called = constructs(
        easel=failing_at(3, mismatch), pilot=failing_at(5, mismatch, otherwise=EXPECTED)
    )
    called[EASEL] = ScriptedAdapter(failing_at(3, mismatch), version=None)
    finished = pilot_stage(tmp_path, episodes(60), changes=THREE).run(called)
    assert [len(finished.calls(seq)) for seq in (3, 5)] == [1, 3]
    for seq, hop, version in ((3, 0, EASEL_VERSION), (5, 2, VERSION)):
        attempt = last_attempt(finished.calls(seq)[hop])
        assert (attempt["reason"], attempt["response"]["status"]) == ("version-mismatch", "error")
        assert attempt["response"]["error_detail"] == (
            f"expected construct_version {version} (pinned), got {other} (reported)"
        )
    facts = cast("JsonObject", finished.document("tier.json")["facts"])
    assert (facts["version_mismatches"], facts["failures"]) == (2, 2)
    assert finished.document("certificate.json")["caps"] == ["version-mismatch"]


def test_one_construct_whose_version_is_only_claimed_makes_the_chain_claimed(
    tmp_path: Path,
) -> None:
    called = constructs()
    called[MINT] = ScriptedAdapter(fixed(TASTED), version=None)
    finished = pilot_stage(tmp_path, episodes(1), changes=THREE).run(called)
    sources = [call["version_source"] for call in finished.calls(1)]
    assert sources == ["computed", "claimed", "computed"]
    assert finished.document("certificate.json")["version_source"] == "claimed"


def test_failures_of_any_hop_count_towards_the_threshold(tmp_path: Path) -> None:
    def failing(*seqs: int) -> Answer:
        def respond(request: OracleInvocationRequest) -> JsonObject:
            asked = request.input_data.get("episode", request.input_data)
            return ERROR if asked["seq"] in seqs else {"output_data": {**EXPECTED}}

        return respond

    called = constructs(easel=failing(2), mint=failing(4), pilot=failing(5))
    stage: Stage = pilot_stage(tmp_path, episodes(10), changes=THREE)
    finished = stage.run(called)
    assert outcomes(finished) == [
        *("scored", "missing", "scored", "missing", "missing"),
        *["not_run"] * 5,
    ]
    assert [(detail["seq"], detail["construct_id"]) for detail in troubles(finished)] == [
        (2, EASEL),
        (4, MINT),
        (5, PILOT),
    ]
