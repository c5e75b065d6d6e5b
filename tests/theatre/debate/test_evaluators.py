"""Evaluators see what they may, say what the formulas say, and what means nothing moves none."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theatre.debate.debates import ADVICE, a_debate, as_bytes, read
from tests.theatre.debate.judged_debates import by_tags, judged
from tests.theatre.debate.scripted_runs import FIXTURES, scripted, valid
from theatre.debate.blind import BlindTurn, blind, blind_turn
from theatre.debate.evaluators import EVALUATORS, crit, evaluate, pid, raudit, rca, t3
from theatre.debate.evaluators.quality import Rated, quality_of
from theatre.debate.models import Debate, Turn
from theatre.debate.text.rungs import NAMES
from theatre.debate.validation import read_debate
from theatre.engine.canonical_json import canonical_bytes

TURN = """### CLAIM
Wool should be bought, because the smaller clip leads to higher prices.

### DECISION
BUY | SIZE 3-5.5% | HORIZON 3-6 months

### REASON 1
Evidence: [DATA:clip] The clip fell by 14 % against the 30 % expected, and mills expect growth.
If the clip stays small then auction prices rise because mills hold little stock.
Falsifier: unsold bales above 5 %.

### REASON 2
Evidence: [ASSUMPTION] Uniform makers like wool.

### COUNTERARGUMENT
Synthetic yarn could lower demand for coarse grades. Yes.

### REBUTTAL
Synthetic yarn cannot replace fine grades.

### WHAT WOULD CHANGE MY MIND
Two weak auctions.

### FINAL CONSISTENCY CHECK
Claim and decision agree: BUY.
"""


def turn(content: str = TURN, **members: object) -> BlindTurn:
    given: dict[str, Any] = {
        "turn_id": "t",
        "turn_index": 3,
        "speaker_id": "ann",
        "content": content,
        "recommendation": ADVICE,
        **members,
    }
    return blind_turn(Turn.model_validate(given))


def of_one_turn(content: str) -> dict[str, Any]:
    first = {**a_debate()["turns"][0], "content": content}
    return a_debate(turns=[first], intervention_log=None)


def codes(spoken: BlindTurn, context: rca.Context | None = None) -> list[str]:
    return [one.code for one in rca.violations(spoken, context or rca.Context())]


def flaws(content: str, **members: object) -> list[str]:
    said = turn(content, **members)
    return [one.code for one in crit.findings_of(said, quality_of(said))]


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


def results(debate: Debate, names: tuple[str, ...]) -> list[bytes]:
    return [
        canonical_bytes(EVALUATORS[name](debate).as_document(artefact_sha256="")) for name in names
    ]


UNSEEN: Any = st.recursive(
    st.none() | st.booleans() | st.text(max_size=6) | st.sampled_from(["BUY", "SELL"]),
    lambda inner: st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=4,
)


@given(unseen=UNSEEN, label=st.sampled_from(["BUY", "SELL", "SHORT", "HOLD"]))
@settings(max_examples=25, deadline=None)
def test_what_the_blind_projection_drops_moves_no_blind_evaluator(unseen: Any, label: str) -> None:  # noqa: ANN401  # any JSON
    base = FORGEABLE
    other = copy.deepcopy(base)
    open_objects = [other, other["metadata"], other["run_metadata"], *other["participants"]]
    for spoken in other["turns"]:
        open_objects += [spoken, *spoken["attempts"]]
        spoken["turn_metadata"] = {"ground_truth": label}
        for attempt in spoken["attempts"]:
            attempt |= {"audit": {"t3": {"feedback": label}}, "control_state": None}
            attempt["attempt_metadata"] = {"truth": unseen}
    for place in open_objects:
        place |= {"ground_truth": label, "outcome": unseen}
    other |= {"raud_it": {"metrics": {"truth": label}}, "intervention_log": None}
    names = ("crit", "rca", "t3")
    assert results(valid(other), names) == results(valid(base), names)
    # Nor what a model is asked, and so nothing that it could answer by.
    assert judged(valid(other), by_tags)[1] == judged(valid(base), by_tags)[1]


def test_text_moves_nothing_in_what_only_sees_numbers() -> None:
    other = copy.deepcopy(FORGEABLE)
    for spoken in other["turns"]:
        for part in (spoken, *spoken["attempts"]):
            part["content"] = "something else"
    names = ("pid",)
    assert results(Debate.model_validate(other), names) == results(valid(FORGEABLE), names)


FORGEABLE: Any = scripted(5)


def test_results_name_the_artefact_and_leave_it_alone() -> None:
    data = as_bytes(FORGEABLE)
    artefact = read_debate(data)
    once, again = evaluate(artefact, sorted(EVALUATORS)), evaluate(artefact, sorted(EVALUATORS))
    assert json.dumps(once) == json.dumps(again)
    assert {one["artefact_sha256"] for one in once} == {artefact.sha256}
    assert {one["evaluator"]: one["scorer_kind"] for one in once} == {
        "crit_struct/1": "structural_proxy",
        "pid/1": "recomputation",
        "rca_struct/1": "structural_proxy",
        "t3_struct/1": "structural_proxy",
    }
    assert artefact.data == data


def figures(content: str) -> list[Any]:
    spoken = turn(content)
    quality = quality_of(spoken)
    assert quality is not None
    return [quality.as_document(), flaws(content), codes(spoken), t3.detected_rung(spoken)]


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_white_space_and_the_order_of_sections_change_nothing(data: st.DataObject) -> None:
    sections = data.draw(st.permutations(["### " + one for one in TURN.split("### ")[1:]]))
    spaces = data.draw(st.sampled_from([" ", "  ", " \t "]))
    ends = data.draw(st.sampled_from(["\n", "\n\n\n", " \n"]))
    spoilt = (
        "".join(sections).replace(" ", spaces).replace("\n", ends).replace(f"###{spaces}", "### ")
    )
    assert figures(spoilt) == figures(TURN)


@given(seed=st.integers(0, 400), data=st.data())
@settings(max_examples=60, deadline=None)
def test_deleting_a_falsifier_never_raises_a_score(seed: int, data: st.DataObject) -> None:
    document: Any = scripted(seed, mode="posthoc", rounds=1)
    content = document["turns"][0]["content"]
    lines = content.split("\n")
    places = [at for at, line in enumerate(lines) if line.startswith("Falsifier:")]
    places += [at + 1 for at, line in enumerate(lines) if line.startswith("### WHAT WOULD")]
    if not places:
        return
    gone = data.draw(st.sampled_from(places))
    before = quality_of(turn(content))
    after = quality_of(turn("\n".join(lines[:gone] + lines[gone + 1 :])))
    assert before is not None
    assert after is not None
    for member in ("gamma_mean", "theta_mean", "gamma_crit", "rho"):
        assert getattr(after, member) <= getattr(before, member)
    assert (after.gamma_net or -math.inf) <= (before.gamma_net or -math.inf)


_NAMES = """CLAIM DECISION REASON_1 REASON_2 REASON_3 REASON_4 COUNTERARGUMENT REBUTTAL ASSUMPTIONS
EPISTEMIC_CLARITY WHAT_WOULD_CHANGE_MY_MIND FINAL_CONSISTENCY_CHECK"""
STUFFED = "\n".join(
    f"### {name.replace('_', ' ')}\n[DATA] If then because mechanism, if data then data because "
    "data. BUY. rise"
    for name in _NAMES.split()
)


def test_headings_stuffed_with_the_right_words_do_not_beat_an_honest_turn() -> None:
    stuffed = quality_of(turn(STUFFED))
    assert stuffed is not None
    assert len(stuffed.reasons) == 1  # said four times, counted once
    for seed in range(20):
        document: Any = scripted(seed, mode="posthoc", rounds=1)
        for spoken in document["turns"]:
            honest = quality_of(turn(spoken["content"]))
            assert honest is not None
            assert stuffed.gamma_crit < honest.gamma_crit
            assert stuffed.rho < honest.rho


def handwritten() -> dict[str, float]:
    """Return `gamma_crit` of every structured turn that was written by hand."""
    found = {}
    for path in sorted((FIXTURES / "handwritten").glob("*.json")):
        for spoken in blind(read_debate(path.read_bytes()).debate).turns:
            quality = quality_of(spoken)
            if quality is not None:
                found[f"{path.stem} {spoken.turn_index}"] = quality.gamma_crit
    return found


def test_stuffing_beats_no_turn_that_was_written_by_hand() -> None:
    stuffed = quality_of(turn(STUFFED))
    assert stuffed is not None
    assert len(handwritten()) == 17
    assert [name for name, figure in handwritten().items() if figure <= stuffed.gamma_crit] == []


NONSENSE = "".join(
    f"""### REASON {number}
Evidence: [DATA:s{number}] 1{number} and 2{number} {one} grows beyond every expected {two}, which
lifts gains for {three} all round.
If {one} {two} persists then {three} demand rises because {four} {five} carry through.
Falsifier: none of {one}.
"""
    for number, (one, two, three, four, five) in enumerate(
        (
            ("lorem", "ipsum", "dolor", "amet", "consectetur"),
            ("adipiscing", "elit", "eiusmod", "tempor", "incididunt"),
        ),
        start=1,
    )
)


def test_whole_sentences_of_nonsense_beat_every_honest_turn_as_the_page_admits() -> None:
    forged = quality_of(turn(f"### CLAIM\nThings lead to growth.\n### DECISION\nBUY\n{NONSENSE}"))
    assert forged is not None
    assert (forged.gamma_crit, forged.threshold_pass) == (1.0, True)
    assert max(handwritten().values()) < 1.0


_PIECES = """### CLAIM|### REASON 1|2) REASON 99|### DECISION|BUY|SELL|\n| |if|then|because|[DATA:x]
|[ASSUMPTION]|Falsifier:|I concede|would have|14 %|.|ß|### COUNTERARGUMENT|### REBUTTAL|SIZE 0-0%
|\u2028|\x00|### WHAT WOULD CHANGE MY MIND"""
PIECES = st.sampled_from(_PIECES.split("|"))


@given(texts=st.lists(st.lists(PIECES, max_size=20).map("".join), min_size=4, max_size=4))
@settings(max_examples=60, deadline=None)
def test_no_text_makes_an_evaluator_fail(texts: list[str]) -> None:
    document = copy.deepcopy(FORGEABLE)
    for spoken, text in zip(document["turns"], texts, strict=True):
        spoken |= {"content": text or "-", "attempts": None}
        spoken["rca_trace"] = {"reasoning_steps": text, "final_answer": text}
    debate = read_debate(as_bytes({**document, "evaluation_mode": "posthoc"})).debate
    for result in results(debate, ("crit", "rca", "t3", "pid")):
        assert result.startswith(b"{")
