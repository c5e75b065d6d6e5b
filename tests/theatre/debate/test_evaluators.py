"""What evaluators say of debates, by the formulas, worked out by hand.

The shipped auditor is a program of its own; it finds the same.
"""

import copy
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.debate.auditor_trial import CORRUPTIONS, audit
from tests.theatre.debate.debates import ADVICE, a_debate, as_bytes, read
from tests.theatre.debate.scripted_runs import scripted, valid
from tests.theatre.debate.spoken_turns import FORGEABLE, TURN, codes, flaws, of_one_turn, turn
from theatre.debate.blind import blind
from theatre.debate.episodes.runner import FAULTS
from theatre.debate.evaluators import EVALUATORS, evaluate, pid, raudit, rca, t3
from theatre.debate.evaluators.crit import Rated, quality_of
from theatre.debate.models import Debate
from theatre.debate.text import NAMES
from theatre.debate.validation import read_debate


def test_crit_by_hand() -> None:
    quality = quality_of(turn())
    assert quality is not None
    # Reason 1: mechanism, condition, direction, consistency; DATA with two numbers.
    # Reason 2: consistency only; an assumption. The counterargument's one sentence: direction and
    # consistency; no tag.
    assert quality.reasons == (
        Rated(gamma=1.0, theta=1.0, is_supported=True, is_consistent=True),
        Rated(gamma=0.2, theta=0.3, is_supported=False, is_consistent=True),
    )
    assert quality.rivals == (Rated(gamma=0.2, theta=0.2, is_supported=False, is_consistent=True),)
    assert quality.gamma_mean == pytest.approx((1.0 + 0.2 + 0.2) / 3)
    assert quality.theta_mean == pytest.approx((1.0 + 0.3 + 0.2) / 3)
    assert quality.gamma_crit == pytest.approx((1.0 + 0.06 + 0.04) / 3)
    assert quality.gamma_net == pytest.approx((1.06 - 0.04) / (1.06 + 0.04))
    assert (quality.logical_validity, quality.evidential_support) == (0.6, 0.65)
    assert (quality.alternative_consideration, quality.causal_alignment) == (1.0, 1.0)
    assert quality.rho == pytest.approx((0.6 + 0.65 + 2.0) / 4)
    assert not quality.threshold_pass


def test_a_strong_rival_raises_the_printed_formula_and_lowers_the_net_one() -> None:
    rival = (
        "[DATA:yarn] If synthetic yarn stays cheap then wool demand falls because blends change, "
        "mills shrink and prices drop by 22 % in 2 seasons."
    )
    strong = TURN.replace("Synthetic yarn could lower demand for coarse grades. Yes.", rival)
    plain, pressed = quality_of(turn()), quality_of(turn(strong))
    assert plain is not None
    assert pressed is not None
    assert pressed.gamma_crit > plain.gamma_crit
    assert (plain.gamma_net or 0) > (pressed.gamma_net or 0)


def test_an_unstructured_turn_has_no_quality_rather_than_none_of_it() -> None:
    result = EVALUATORS["crit"](read(a_debate()))
    assert result.turns[0] == {"turn_index": 0, "reason": "UNSTRUCTURED"}
    assert result.summary == {
        "structured_turns": 0,
        "unstructured_turns": 3,
        **dict.fromkeys(("gamma_mean", "theta_mean", "gamma_crit", "gamma_net", "rho")),
    }


@pytest.mark.parametrize(
    ("old", "new", "members", "code"),
    [
        ("Falsifier: unsold bales above 5 %.", "", {}, None),
        ("### WHAT WOULD CHANGE MY MIND\nTwo weak auctions.\n", "", {}, None),
        ("[DATA:clip]", "[ASSUMPTION]", {}, "UNSUPPORTED_CLAIMS"),
        (
            "[DATA:clip]",
            "[ASSUMPTION]",
            {"recommendation": {**ADVICE, "conviction": 0.99}},
            "PREMATURE_CERTAINTY",
        ),
        ("Uniform makers like wool.", "One may SELL.", {}, "CONTRADICTION"),
        ("Synthetic yarn cannot replace fine grades.", "No.", {}, "IGNORED_CRITIQUE"),
    ],
)
def test_flaws_of_reasons(old: str, new: str, members: dict[str, Any], code: str | None) -> None:
    assert old in TURN
    assert flaws(TURN.replace(old, new), **members) == ([code] if code else [])


def test_a_turn_that_nothing_could_change_is_found() -> None:
    closed = TURN.replace("Falsifier: unsold bales above 5 %.", "").replace(
        "Two weak auctions.", ""
    )
    assert flaws(TURN) == []
    assert flaws(closed) == ["FALSIFIER_MISSING"]


TRACE = {"reasoning_steps": "Clip is small. So BUY.", "final_answer": "BUY"}


@pytest.mark.parametrize(
    ("content", "members", "code"),
    [
        (TURN, {}, None),
        (TURN, {"rca_trace": TRACE}, None),
        (TURN, {"rca_trace": {**TRACE, "final_answer": ""}}, "NO_FINAL_ANSWER"),
        (TURN, {"rca_trace": {**TRACE, "final_answer": "perhaps"}}, "NO_FINAL_ANSWER"),
        (
            TURN,
            {"rca_trace": {**TRACE, "reasoning_steps": "BUY? No: SELL."}},
            "TRACE_OUTPUT_MISMATCH",
        ),
        (
            TURN,
            {"rca_trace": {"reasoning_steps": "So SELL.", "final_answer": "SELL"}},
            "ANSWER_RECOMMENDATION_MISMATCH",
        ),
        (TURN.replace("BUY | SIZE", "HOLD | SIZE"), {}, "DECISION_LINE_MISMATCH"),
        (TURN, {"recommendation": {**ADVICE, "horizon_days_max": 365}}, "RANGE_MISMATCH"),
        (TURN, {"recommendation": {**ADVICE, "position_size_pct_max": 7}}, "RANGE_MISMATCH"),
        (TURN.replace("cannot replace", "I said SELL, cannot replace"), {}, "STANCE_SHIFT_IN_TURN"),
        (TURN.replace("cannot replace", "bo says SELL, cannot replace"), {}, None),
    ],
)
def test_violations_between_trace_and_output(
    content: str, members: dict[str, Any], code: str | None
) -> None:
    expected = {code} if code else set()
    found = set(codes(turn(content, **members)))
    # A decision line that differs is also a second stance.
    assert (
        found - ({"STANCE_SHIFT_IN_TURN"} if code == "DECISION_LINE_MISMATCH" else set())
        == expected
    )


def test_a_change_to_anothers_action_without_new_evidence_is_sycophantic() -> None:
    before = turn(TURN.replace("BUY", "SELL"), recommendation={**ADVICE, "action": "SELL"})
    said = rca.Context(own_last=before, others_since=frozenset({"BUY"}))
    assert "SYCOPHANTIC_FLIP" in codes(turn(), said)
    new = TURN.replace("[DATA:clip]", "[DATA:new_clip]")
    assert "SYCOPHANTIC_FLIP" not in codes(turn(new), said)
    deferring = new.replace("Yes.", "You are right.")
    assert "SYCOPHANTIC_FLIP" in codes(turn(deferring), said)
    unheard = rca.Context(own_last=before, others_since=frozenset({"HOLD"}))
    assert "SYCOPHANTIC_FLIP" not in codes(turn(), unheard)


def test_who_concedes_and_is_as_sure_as_before_is_stubborn() -> None:
    conceding = turn(TURN.replace("Yes.", "I concede that."))
    assert codes(conceding, rca.Context(own_last=turn())) == ["STUBBORN"]
    surer = turn(recommendation={**ADVICE, "conviction": 0.9})
    assert codes(conceding, rca.Context(own_last=surer)) == []


@pytest.mark.parametrize(
    ("sentence", "rung"),
    [
        ("Had the clip grown, prices would have fallen.", "L3"),
        ("But for the drought there were no rise.", "L3"),
        ("If mills buy now then prices rise.", "L2"),
        ("The drought drives prices.", "L2"),
        ("Prices tend to move with the clip.", "L1"),
        ("Wool is warm.", None),
    ],
)
def test_rungs_of_sentences(sentence: str, rung: str | None) -> None:
    spoken = turn(f"{sentence} {sentence}")
    assert NAMES[t3.detected_rung(spoken)] == rung


def test_a_claim_above_its_evidence_collapses() -> None:
    reason = "Evidence: [DATA:x] Prices tend to move with the clip by 3 %."
    low = TURN[: TURN.index("### REASON 1")] + f"### REASON 1\n{reason}\nFalsifier: none of it."
    debate = read(of_one_turn(low))
    (row,) = EVALUATORS["t3"](debate).turns
    assert (row["rung_collapse"], row["pearl_rung_detected"], row["pass"]) == (True, "L2", None)
    asked = t3.RequiredReasoning(rung="L2")
    assert t3.evaluate(blind(debate), asked).summary["passed_rate"] == 0.0


def test_a_required_rung_and_trap_decide_over_pass() -> None:
    debate = read(of_one_turn(TURN))
    for required, passed in (
        (t3.RequiredReasoning(rung="L2"), 1.0),
        (t3.RequiredReasoning(rung="L3"), 0.0),
        (t3.RequiredReasoning(rung="L2", trap_terms=("survivor",)), 0.0),
        (t3.RequiredReasoning(rung="L2", trap_terms=("Synthetic",)), 1.0),
        (t3.RequiredReasoning(), None),
    ):
        assert t3.evaluate(blind(debate), required).summary["passed_rate"] == passed


def with_attempts(*answers: str) -> Debate:
    debate = a_debate()
    base = debate["turns"][1]["attempts"][0]
    attempts = [
        {**base, "attempt_index": at, "final_answer": answer, "control_state": None}
        for at, answer in enumerate(answers)
    ]
    debate["turns"][1] |= {"attempts": attempts, "content": base["content"]}
    return read(debate)


@pytest.mark.parametrize(
    ("answers", "regime", "counts"),
    [
        (("BUY",), "stable_true", (0, 0, 0, 0)),
        (("SELL", "SELL"), "stable_false", (0, 0, 0, 1)),
        (("SELL", "BUY"), "recovered", (0, 0, 1, 0)),
        (("BUY", "BUY", "SHORT"), "collapsed", (1, 1, 0, 0)),
        (("BUY", "SELL", "BUY"), "oscillating", (0, 1, 1, 0)),
        (("SELL", ""), "abstained", (0, 0, 0, 0)),
    ],
)
def test_what_retries_did_to_the_truth(
    answers: tuple[str, ...], regime: str, counts: tuple[int, ...]
) -> None:
    summary = raudit.evaluate(with_attempts(*answers), {"*": "BUY"}).summary
    per_retry: Any = summary["per_retry"]
    assert (summary["regime"], tuple(per_retry["counts"].values())) == (regime, counts)


def test_rates_without_a_denominator_are_null() -> None:
    summary: Any = raudit.evaluate(with_attempts("BUY", "BUY"), {"*": "BUY"}).summary
    assert summary["per_retry"]["paranoia_rate"]["value"] == 0.0
    assert summary["per_retry"]["realignment_rate"] == {
        "value": None,
        "successes": 0,
        "trials": 0,
        "interval": None,
    }
    assert summary["per_retry"]["sycophancy_ratio"] is None
    nothing: Any = raudit.evaluate(with_attempts("BUY"), {}).summary
    assert (nothing["endpoints"]["net_effect"], nothing["regime"]) == (None, None)
    assert raudit.Transitions(tf=1, tt=3, ft=1, ff=1).sycophancy_ratio == 0.5


def test_pid_sees_a_changed_output_and_a_state_that_was_not_applied() -> None:
    document: Any = scripted(3)
    good = pid.evaluate(valid(document))
    assert (good.summary["control_replay_ok"], list(good.findings)) == (True, [])
    forged = copy.deepcopy(document)
    forged["turns"][1]["attempts"][0]["audit"]["pid"]["u_t"] += 1e-6
    found = [one.code for one in pid.evaluate(Debate.model_validate(forged)).findings]
    assert "CONTROL_REPLAY_MISMATCH" in found
    forged = copy.deepcopy(document)
    forged["turns"][1]["attempts"][0]["control_state"]["e_t"] += 0.5
    result = pid.evaluate(Debate.model_validate(forged))
    assert [one.code for one in result.findings] == ["CONTROL_STATE_MISMATCH"]
    assert pid.evaluate(read(a_debate())).summary == {"steps": 0, "control_replay_ok": None}


def test_results_name_the_artefact_and_leave_it_alone() -> None:
    data = as_bytes(FORGEABLE)
    artefact = read_debate(data)
    once, again = evaluate(artefact, sorted(EVALUATORS)), evaluate(artefact, sorted(EVALUATORS))
    assert json.dumps(once) == json.dumps(again)
    assert {one["artefact_sha256"] for one in once} == {artefact.sha256}
    assert {one["evaluator"]: one["scorer_kind"] for one in once} == {
        "crit_struct/1": "textual",
        "pid/1": "exact",
        "rca_struct/1": "textual",
        "t3_struct/1": "textual",
    }
    assert artefact.data == data


FIXTURES = Path(__file__).parents[3] / "fixtures"
EPISODES = FIXTURES / "ground_truth" / "product_debate_auditor_v1.jsonl"
MODULES = ("auditor", "argument_faults", "broken_rules", "turn_text")


def test_auditors_are_given_the_codes_and_the_words_of_the_faults_that_are_planted() -> None:
    assert [*FAULTS.items()] == [(one.expected, one.name.partition(" ")[2]) for one in CORRUPTIONS]


def test_it_finds_in_every_episode_what_the_package_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FIXTURES / "constructs" / "debate"))
    auditor = importlib.import_module("auditor")
    for line in EPISODES.read_bytes().splitlines():
        asked = json.loads(line)["input_data"]
        for one in (asked, {"earlier": None, **asked.get("twin", {})}):
            if "debate" not in one:
                continue
            earlier = one.get("earlier")
            found = auditor.structural({"debate": one["debate"], "earlier": earlier})["findings"]
            expected = audit(one["debate"], earlier=earlier)
            assert {(each["turn"], each["code"]) for each in found} == {*expected}
    for name in MODULES:
        sys.modules.pop(name, None)
