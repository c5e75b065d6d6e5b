"""Each rule finds its own breach, at its place, and nothing in a debate that keeps them all."""

import json
import math

import pytest

from tests.theatre.debate.debates import ADVICE, RUN_ID, a_debate, attempt, changed, found, read
from theatre.debate.models import Debate
from theatre.debate.rules import RULES, rule_findings
from theatre.debate.validation import repeated_runs

TURN = "/turns/1"
ATTEMPT = f"{TURN}/attempts/1"

BREACHES = [
    ("R1", "E_SCHEMA_VERSION", "/schema_version", "2.0.1"),
    ("R1", "W_RUN_ID_NOT_UUID", "/run_id", "run 1"),
    ("R2", "E_DUPLICATE_AGENT_ID", "/participants/1/agent_id", "ann"),
    ("R3", "E_SPEAKER_UNKNOWN", "/turns/0/speaker_id", "ann "),
    ("R3", "E_SPEAKER_ID_EMPTY", "/turns/0/speaker_id", ""),
    ("R4", "E_DUPLICATE_TURN_ID", "/turns/2/turn_id", "t0"),
    ("R4", "E_TURN_ID_EMPTY", "/turns/2/turn_id", ""),
    ("R5", "E_NEGATIVE_TURN_INDEX", "/turns/0/turn_index", -1),
    ("R6", "W_TURN_INDEX_GAP", "/turns/2/turn_index", 5),
    ("R7", "E_ROUND_ORDER", "/turns/2/round_index", None),
    ("R8", "E_ATTEMPT_INDEX_INVALID", f"{TURN}/attempts/0/attempt_index", -1),
    ("R8", "E_ATTEMPT_TIME_DECREASES", f"{ATTEMPT}/timestamp", "2026-01-05T09:59:59Z"),
    ("R8", "E_TIME_INVALID", f"{ATTEMPT}/timestamp", "2026-02-30T10:01:00Z"),
    ("R8", "E_TIME_INVALID", "/metadata/created_at", "2026-13-01T00:00:00Z"),
    ("R8", "E_TIME_INVALID", "/intervention_log/0/timestamp", "2026-01-05T25:00:00Z"),
    ("R9", "E_MODE_MISMATCH", "/turns/1/attempts", "posthoc"),
    ("R10", "E_ACCEPTED_ATTEMPT_MISMATCH", f"{TURN}/content", "try 0"),
    ("R10", "E_ACCEPTED_ATTEMPT_MISMATCH", f"{TURN}/recommendation", {**ADVICE, "action": "SELL"}),
    ("R11", "E_RETRY_COUNT_MISMATCH", f"{ATTEMPT}/control_state/retry_count", 0),
    ("R16", "E_INTERVENTION_TURN_UNKNOWN", "/intervention_log/0/turn_index", 7),
    ("R16", "E_INTERVENTION_SPEAKER_MISMATCH", "/intervention_log/0/speaker_id", "ann"),
]


def test_a_debate_that_keeps_every_rule_has_no_findings() -> None:
    assert found(a_debate()) == []


@pytest.mark.parametrize(("rule", "code", "pointer", "value"), BREACHES)
def test_a_breach_is_found_where_it_is(rule: str, code: str, pointer: str, value: object) -> None:
    debate = changed(pointer, value)
    if code == "E_DUPLICATE_AGENT_ID":
        debate["participants"].append({"agent_id": "bo", "role": "critic"})
    if code == "E_ROUND_ORDER":
        debate = changed("/turns/0/round_index", 2)
        pointer = "/turns/1/round_index"
    if code == "E_MODE_MISMATCH":
        debate = a_debate(evaluation_mode=value)
    assert found(debate) == [(rule, code, pointer)]


def test_a_run_without_a_mode_is_posthoc() -> None:
    debate = changed("/evaluation_mode", ...)
    assert found(debate) == [("R9", "E_MODE_MISMATCH", "/turns/1/attempts")]
    one = changed("/turns/1/attempts", [attempt(0, content="try 1")], debate)
    assert found(one) == [("R9", "W_ATTEMPTS_PRESENT_POSTHOC", "/turns/1/attempts")]


def test_a_turn_index_used_twice_is_an_error_of_its_own() -> None:
    assert found(changed("/turns/2/turn_index", 1)) == [
        ("R5", "E_DUPLICATE_TURN_INDEX", "/turns/2/turn_index")
    ]


def test_lenient_reading_forgives_order_and_retry_counts_and_nothing_else() -> None:
    early = changed("/turns/2/turn_index", 0, changed("/turns/0/turn_index", 4))
    assert found(early) == [
        ("R6", "E_TURN_ORDER", "/turns/1/turn_index"),
        ("R6", "E_TURN_ORDER", "/turns/2/turn_index"),
    ]
    assert [code for _, code, _ in found(early, lenient=True)] == [
        "W_TURN_INDEX_GAP",
        "W_TURN_INDEX_NOT_MONOTONIC",
        "W_TURN_INDEX_NOT_MONOTONIC",
    ]
    counted = changed(f"{ATTEMPT}/control_state/retry_count", 5)
    assert [code for _, code, _ in found(counted, lenient=True)] == ["W_RETRY_COUNT_MISMATCH"]
    stranger = changed("/turns/0/speaker_id", "cleo")
    assert [code for _, code, _ in found(stranger, lenient=True)] == ["E_SPEAKER_UNKNOWN"]


@pytest.mark.parametrize(
    ("member", "value", "expected"),
    [
        ("position_size_pct_min", 6, [("R12", "E_RECOMMENDATION_RANGE_INVALID", "_pct_min")]),
        ("horizon_days_min", 181, [("R12", "E_RECOMMENDATION_RANGE_INVALID", "_days_min")]),
        ("position_size_pct_max", 100.5, [("R13", "E_SIZE_ABOVE_100", "_pct_max")]),
        ("position_size_pct_max", 100, []),
        ("position_size_pct_min", 0, []),
    ],
)
def test_ranges_and_sizes(member: str, value: float, expected: list[tuple[str, str, str]]) -> None:
    debate = changed("/turns/0/recommendation", {**ADVICE, member: value})
    seen = found(debate)
    assert [(rule, code) for rule, code, _ in seen] == [(rule, code) for rule, code, _ in expected]
    assert all(at.endswith(end) for (_, _, at), (_, _, end) in zip(seen, expected, strict=True))


def test_a_size_that_looks_like_a_fraction_is_noted() -> None:
    share = {**ADVICE, "position_size_pct_min": 0.05, "position_size_pct_max": 0.07}
    assert found(changed("/turns/0/recommendation", share)) == [
        ("R13", "W_UNIT", "/turns/0/recommendation/position_size_pct_max")
    ]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("BUY", None),
        ("buy.", None),
        ("SELL", "W_FINAL_ANSWER_DIFFERS"),
        ("either BUY or SELL", "W_NO_STRUCTURED_FINAL_ANSWER"),
    ],
)
def test_a_final_answer_beside_another_recommendation_is_data(
    answer: str, code: str | None
) -> None:
    trace = {"reasoning_steps": "…", "final_answer": answer}
    debate = changed("/turns/0/rca_trace", trace, changed("/turns/0/recommendation", ADVICE))
    expected = [("R14", code, "/turns/0/rca_trace/final_answer")] if code else []
    assert found(debate) == expected


def pid(error: float, output: float, **more: object) -> dict[str, object]:
    gains = {"k_p": 0.15, "k_i": 0.01, "k_d": 0.03}
    return {"pid": {"e_t": error, "u_t": output, **gains, **more}}


def test_stored_controller_outputs_are_replayed_to_a_billionth() -> None:
    # 0.15·0.5 + 0.01·0.5, then 0.15·0.2 + 0.01·0.7 + 0.03·(0.2 - 0.5)
    good = a_debate()
    good["turns"][1]["attempts"][0]["audit"] = pid(0.5, 0.08)
    good["turns"][1]["attempts"][1]["audit"] = pid(0.2, 0.028)
    assert found(good) == []
    bad = changed(f"{ATTEMPT}/audit/pid/u_t", 0.028 + 3e-9, good)
    assert found(bad) == [("R15", "W_PID_REPLAY", f"{ATTEMPT}/audit/pid/u_t")]
    limited = changed(f"{ATTEMPT}/audit", pid(0.2, 0.027, integral_limit=0.6), good)
    assert found(limited) == []


def test_numbers_that_no_json_holds_are_found_in_what_python_built() -> None:
    debate = a_debate()
    debate["turns"][1]["attempts"][0]["audit"] = {"mine": {"deep": [1.0, math.inf]}}
    debate["turns"][1]["recommendation"] = {**ADVICE, "conviction": 0.5}
    endless = Debate.model_validate(debate)
    assert [(one.code, one.pointer) for one in rule_findings(endless)] == [
        ("E_ACCEPTED_ATTEMPT_MISMATCH", "/turns/1/recommendation"),
        ("E_NOT_FINITE", "/turns/1/attempts/0/audit/mine/deep/1"),
    ]


@pytest.mark.parametrize("number", [math.nan, -math.inf])
@pytest.mark.parametrize("member", ["e_t", "unheard_of"])
def test_known_and_unknown_members_of_the_loop_are_looked_into(member: str, number: float) -> None:
    debate = a_debate()
    loop = {"audit": {"pid": {member: number}}, "control_state": {member: number}}
    debate["turns"][1]["attempts"][0] |= loop
    found_there = [
        one.pointer
        for one in rule_findings(Debate.model_validate(debate))
        if one.code == "E_NOT_FINITE"
    ]
    attempt_0 = "/turns/1/attempts/0"
    assert found_there == [f"{attempt_0}/audit/pid/{member}", f"{attempt_0}/control_state/{member}"]


def test_a_pair_of_ids_may_be_there_once() -> None:
    first, other = read(a_debate()), read(a_debate(debate_id="silk_prices"))
    assert repeated_runs([first, other]) == []
    ((place, finding),) = repeated_runs([first, other, first])
    assert (place, finding.rule, finding.code) == (2, "R17", "E_DUPLICATE_RUN")
    assert RUN_ID in finding.detail


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": NaN}',
        b'{"a": 1, "a": 2}',
        b'{"a": "\\ud800"}',
        b"[]",
        b"\xff",
        b"{",
        b"",
        json.dumps(a_debate()).encode() + b"\n\xef",
    ],
)
def test_bytes_that_are_no_strict_json_object_are_refused_as_such(data: bytes) -> None:
    assert found(data) == [("R18", "E_NOT_STRICT_JSON", "")]


def test_every_rule_has_a_test_here() -> None:
    tested = {rule for rule, *_ in BREACHES} | {"R12", "R13", "R14", "R15", "R17", "R18", "R5"}
    assert tested == {*RULES, "R17", "R18"}
