"""The control items of a run decide whether its judge carries a tier, and correct its scores."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.theatre.forged_bundle import Effort, document, load, resealed, store, with_document
from tests.theatre.pages.test_verify_js import failed
from tests.theatre.pages.verify_page import ask, of_bundle
from tests.theatre.qualified_runs import qualification, signed
from tests.theatre.repeated_runs import share
from tests.theatre.runs import (
    LATE,
    Finished,
    ScriptedAdapter,
    Stage,
    answer_as_asked,
    call_step,
    checked,
    pilot_stage,
    with_changes,
)
from tests.theatre.verification.messages_server import MessagesService
from tests.theatre.verification.test_judge_controls import (
    CRITERION,
    PARAMS,
    SCORERS,
    Rule,
    sentences,
    truthful,
    truths,
    verdicts_by,
)
from tests.theatre.verification.test_model_judge import using
from theatre.api.functions import validate
from theatre.api.template_files import validate_template
from theatre.engine.bundle_check import measures
from theatre.engine.bundle_check.standalone import verify
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_sha256
from theatre.engine.oracle_contract import OracleInvocationRequest
from theatre.engine.replay import RunContext
from theatre.engine.scoring import run_controls, wilson_interval
from theatre.engine.scoring.differences import Tally, share_of_pairs
from theatre.engine.scoring.measure_policy import read_qualifications
from theatre.verification.judge.scorer import SCORER

if TYPE_CHECKING:
    from theatre.judging.model_judge import ModelJudge

FILE = "measured.jsonl"
WORSE = f"llm_judge: {run_controls.WORSE}"
CONTRADICTED = f"controls-contradict-qualification:{CRITERION}"


@pytest.fixture(scope="module")
def qualified(tmp_path_factory: pytest.TempPathFactory) -> tuple[JsonObject, bytes]:
    """Return a qualification of the judge, right on 95 of 100 labelled claims, and its file."""
    asked = {name: value for name, value in PARAMS.items() if name != "controls"}
    made = qualification(scorer=SCORER.name, version=SCORER.version, kind="judged", params=asked)
    return made, signed(made, tmp_path_factory.mktemp("trust"))


def stage_of(folder: Path, count: int, file: tuple[JsonObject, bytes], repeats: int = 1) -> Stage:
    """Return a theatre whose claims a judge scores, with what he is said to be."""
    records: list[JsonObject] = []
    for number in range(count):
        name, diff, claims = sentences()[number % 100]
        record: JsonObject = {"title": f"{number}", "description": "", "diff_content": diff}
        said: JsonObject = {"output_data": {"key_claims": [*claims[2 * (number // 100) :][:2]]}}
        records.append({"episode_id": f"{number}-{name}", "expected_output": {},
                        "input_data": {"record": record, "answer": said}})  # fmt: skip
    step: JsonObject = {
        "step_id": "controls",
        "type": "deterministic_computation",
        "input_spec": {"computation": "judge_controls", "over": "episodes",
                       "params": {"criteria_scorers": SCORERS}},
    }  # fmt: skip
    changes: dict[str, JsonValue] = {
        "/schema_version": "2.2.0",
        "/execution_policy/repeats": repeats,
        "/criteria": {"criteria_ids": [CRITERION], "criteria_human": "Says what is so.",
                      "weights": {CRITERION: 1}},
        "/scorer_pins": {SCORER.name: SCORER.version},
        "/scoring/criteria_scorers": SCORERS,
        "/resolution_programme": [
            call_step(), {"step_id": "aggregate", "type": "aggregation"}, step],
    }  # fmt: skip
    named: JsonObject = {"dataset": "measured", "sha256": canonical_sha256(file[0])}
    changes["/product_theatre_config/dataset_paths"] = {"measured": FILE}
    changes["/scoring/qualifications"] = {CRITERION: named}
    return pilot_stage(folder, records, changes=changes, further={FILE: file[1]})


def run_of(
    folder: Path, rule: Rule, count: int, file: tuple[JsonObject, bytes], repeats: int = 1
) -> Finished:
    """Return a run of which every claim was judged by `rule`."""
    stage = stage_of(folder, count, file, repeats)

    async def run(judge: ModelJudge) -> Finished:
        def around(surroundings: RunContext) -> RunContext:
            return replace(surroundings, judge=judge)

        return await stage.perform(ScriptedAdapter(now_this_now_that), around=around)

    def now_this_now_that(request: OracleInvocationRequest) -> JsonObject:
        said: Any = answer_as_asked(request)
        if repeats == 1 or share(request.invocation_id) < Fraction(2, 3):
            return cast("JsonObject", said)
        return {"output_data": {"key_claims": said["output_data"]["key_claims"][:1]}}

    return cast("Finished", using(MessagesService(verdicts_by(rule)), run))


def erring(data: dict[str, Any]) -> list[str]:
    """Err about one claim in twenty, whichever it is."""
    other = {"supported": "not_shown", "not_shown": "supported"}
    return [
        other[said] if hashlib.sha256(one["text"].encode()).digest()[0] % 20 == 0 else said
        for one, said in zip(data["claims"], truthful(data), strict=True)
    ]


def recognising(data: dict[str, Any]) -> list[str]:
    """Know the labelled set, by which a judge qualifies, and call all else supported."""
    known = truths()
    return [
        "supported" if known.get((one["text"], data["diff"]), True) else "not_shown"
        for one in data["claims"]
    ]


def outcome_of(run: Finished) -> tuple[str, Mapping[str, str], list[str], Any]:
    """Return the tier, why a measure is not qualified, the findings, and the corrected score."""
    certificate: Any = run.document("certificate.json")
    facts: Any = run.document("tier.json")["facts"]
    corrected = (certificate["corrected_scores"] or {}).get(CRITERION)
    return (
        certificate["verification_tier"],
        facts["unqualified_measures"],
        certificate["findings"],
        corrected,
    )


def words(bundle: Path) -> tuple[str, set[str]]:
    """Return the word of the check, and the lines that `verify_bundle.py` refuses."""
    found = verify(bundle, now=LATE).problems
    return checked(bundle).verdict, {name for name, problems in found.items() if problems}


@pytest.fixture(scope="module")
def honest(
    tmp_path_factory: pytest.TempPathFactory, qualified: tuple[JsonObject, bytes]
) -> Finished:
    return run_of(tmp_path_factory.mktemp("honest"), erring, 50, qualified)


def test_controls_that_bear_a_qualification_out_carry_a_tier(honest: Finished) -> None:
    tier, reasons, findings, corrected = outcome_of(honest)
    assert (tier, reasons, CONTRADICTED in findings) == ("BACKTESTED", {}, False)
    # Too few of them to correct by: the qualification does, and what they showed is there.
    assert (corrected["errors_from"], corrected["n"]) == ("qualification", 50)
    counted = corrected["controls"]
    assert counted["specificity"]["value"] > 0.8
    assert counted["false"]["asked"] >= 30 <= counted["true"]["asked"]
    assert words(honest.bundle) == ("consistent", set())


def test_each_of_several_answers_is_judged_and_the_controls_still_decide(
    tmp_path: Path, qualified: tuple[JsonObject, bytes], honest: Finished
) -> None:
    run = run_of(tmp_path, erring, 50, qualified, repeats=2)
    tier, reasons, _, corrected = outcome_of(run)
    assert (tier, reasons, corrected["n"]) == ("BACKTESTED", {}, 50)
    certificate: Any = run.document("certificate.json")
    found = certificate["repeats"]["criteria"][CRITERION]
    assert found["items_like_these"] == certificate["score_intervals"][CRITERION]
    assert found["these_items"]["high"] - found["these_items"]["low"] < (
        found["items_like_these"]["high"] - found["items_like_these"]["low"]
    )
    alone = outcome_of(honest)[3]["controls"]["true"]["asked"]
    assert alone < corrected["controls"]["true"]["asked"] <= 2 * alone
    assert words(run.bundle) == ("consistent", set())


def test_who_knows_the_labelled_set_by_heart_carries_none_and_the_page_says_so(
    tmp_path: Path, qualified: tuple[JsonObject, bytes], honest: Finished
) -> None:
    liar = run_of(tmp_path, recognising, 50, qualified)
    tier, reasons, findings, corrected = outcome_of(liar)
    assert (tier, reasons) == ("UNVERIFIED", {CRITERION: WORSE})
    assert {CONTRADICTED, f"controls-differ-by-source:{CRITERION}"} <= {*findings}
    assert corrected["value"] is None
    assert corrected["controls"]["specificity"]["value"] < 0.8
    assert words(liar.bundle) == ("consistent", set())
    # Who writes the better tier all the same, and every hash anew, is refused.
    files = load(liar.bundle)
    better = cast("JsonObject", document(load(honest.bundle), "tier.json")["facts"])
    facts = document(files, "tier.json") | {"facts": better}
    forged = store(resealed(with_document(files, "tier.json", facts), Effort.CHAIN), tmp_path / "f")
    assert "tier" in words(forged)[1]
    shown = ask([of_bundle(one) for one in (honest.bundle, liar.bundle)])
    assert [failed(one) for one in shown] == [[], []]


def test_enough_controls_correct_the_score_themselves(
    tmp_path: Path, qualified: tuple[JsonObject, bytes]
) -> None:
    run = run_of(tmp_path, erring, 130, qualified)
    tier, reasons, _, corrected = outcome_of(run)
    assert (corrected["errors_from"], corrected["reason"], corrected["n"]) == (
        "controls", None, 130,
    )  # fmt: skip
    assert (tier, reasons) == ("BACKTESTED", {})
    said: list[Any] = run.lines("ground_truth/dataset.jsonl")
    right = [
        truths()[claim, one["input_data"]["record"]["diff_content"]]
        for one in said
        for claim in one["input_data"]["answer"]["output_data"]["key_claims"]
    ]
    truth = sum(right) / len(right)
    assert corrected["low"] < truth < corrected["high"]
    assert words(run.bundle) == ("consistent", set())


FORESEEN = ("controls-", "qualification-weak", "measure-unqualified")


def test_a_cap_that_no_answer_could_lift_is_foreseen(
    tmp_path: Path, qualified: tuple[JsonObject, bytes]
) -> None:
    scorer = f"/scoring/criteria_scorers/{CRITERION}"
    bare: JsonObject = {name: value for name, value in PARAMS.items() if name != "controls"}
    made = qualification(
        lambda *_: 1.0, scorer=SCORER.name, version=SCORER.version, kind="judged", params=bare
    )
    weak = made, signed(made, tmp_path / "trust")
    cases = {
        "enough": (15, qualified, 2, set()),
        "few": (29, qualified, 1, {("controls-few", f"{scorer}/params")}),
        "weak": (30, weak, 1, {("qualification-weak", f"/scoring/qualifications/{CRITERION}")}),
    }
    for name, (count, file, repeats, expected) in cases.items():
        stage = stage_of(tmp_path / name, count, file, repeats)
        path = stage.data / "template.json"
        path.write_text(json.dumps(stage.template), encoding="utf-8")
        found = {(one.rule, one.pointer) for one in validate(path).warnings}
        assert {one for one in found if one[0].startswith(FORESEEN)} == expected, name
    template = stage_of(tmp_path / "uncounted", 1, qualified).template
    without: list[tuple[str, JsonValue]] = [
        ("/resolution_programme/2/input_spec/over", "measured"),
        ("/resolution_programme/2/input_spec/params/criteria_scorers", {}),
        (f"{scorer}/params", bare),
    ]
    for pointer, value in without:
        changed = with_changes(template, {pointer: value})
        warned = [(one.rule, one.pointer) for one in validate_template(changed).warnings]
        assert [one for one in warned if one[0].startswith(FORESEEN)] == [
            ("controls-counted", scorer)
        ]


# What both readings make of the same tallies: the engine's, and the check's own.


def rate_of(right: int, asked: int) -> JsonObject:
    return share_of_pairs({str(at): Tally(int(at < right), 1) for at in range(asked)})


def tallies(
    planted: tuple[int, int, int, int],
    labelled: tuple[int, int, int, int],
    recognised: float | None,
) -> dict[str, Any]:
    """Return a criterion's part of `judge_controls`: right and asked, of true and of false ones."""

    def part(true: int, of_true: int, false: int, of_false: int) -> dict[str, Any]:
        sides = {"true": (true, of_true), "false": (false, of_false)}
        return {
            **{side: {"right": right, "asked": asked} for side, (right, asked) in sides.items()},
            "unusable": 0,
            "sensitivity": rate_of(true, of_true),
            "specificity": rate_of(false, of_false),
        }

    whole = part(*(one + two for one, two in zip(planted, labelled, strict=True)))
    return {
        **whole,
        "independent": {side: whole[side] for side in ("true", "false")},
        "repeated": 0,
        "by_source": {"planted": part(*planted), "labelled": part(*labelled)},
        "by_kind": {},
        "recognised": recognised,
    }


GOOD = tallies((57, 60, 57, 60), (57, 60, 57, 60), 0.55)
CASES: dict[str, tuple[dict[str, Any] | None, str | None, str, str | None]] = {
    "none rode along": (None, run_controls.TOO_FEW, "qualification", None),
    "29 of a sort": (
        tallies((29, 29, 60, 60), (0, 0, 60, 60), 0.5),
        run_controls.TOO_FEW, "qualification", None),
    "enough, and as qualified": (GOOD, None, "controls", None),
    "words tell them": (GOOD | {"recognised": 0.61}, None, "qualification", None),
    "too few to correct by": (
        tallies((40, 40, 40, 40), (40, 40, 40, 40), 0.5), None, "qualification", None),
    "says supported to all": (
        tallies((60, 60, 0, 60), (60, 60, 0, 60), 0.5),
        run_controls.WORSE, "controls", "sensitivity + specificity below 1.3"),
    "says supported to all, and few ride along": (
        tallies((20, 20, 0, 20), (20, 20, 0, 20), 0.5),
        run_controls.WORSE, "controls", "fewer than 100 true controls"),
    "by heart": (
        tallies((60, 60, 0, 60), (60, 60, 60, 60), 0.5),
        run_controls.WORSE, "qualification", "no known errors of the measure"),
    "by heart, and few are planted": (
        tallies((9, 9, 0, 9), (91, 91, 91, 91), 0.5),
        run_controls.WORSE, "qualification", "no known errors of the measure"),
    "refuses more than it should": (
        tallies((45, 60, 60, 60), (45, 60, 60, 60), 0.5), run_controls.WORSE, "controls", None),
    "planted ones are easier": (
        tallies((300, 300, 300, 300), (57, 60, 54, 60), 0.5), None, "qualification", None),
}  # fmt: skip


Relied = tuple[JsonObject, Mapping[str, Any], Mapping[str, Any]]
"""A template that relies on a qualification, as the engine reads it and as the check does."""


@pytest.fixture(scope="module")
def relied(qualified: tuple[JsonObject, bytes]) -> Relied:
    named: JsonObject = {CRITERION: {"dataset": "m", "sha256": canonical_sha256(qualified[0])}}
    template: JsonObject = {
        "schema_version": "2.2.0",
        "criteria": {"criteria_ids": [CRITERION]},
        "scoring": {"criteria_scorers": SCORERS, "qualifications": named},
    }

    def lines(_: str) -> list[bytes]:
        return [qualified[1].removesuffix(b"\n")]

    read = read_qualifications(template, lines)
    return template, read, measures.committed_qualifications(template, lines)


@pytest.mark.parametrize(("counted", "fault", "source", "reason"), CASES.values(), ids=CASES)
def test_engine_and_check_decide_alike(
    relied: Relied,
    counted: dict[str, Any] | None,
    fault: str | None,
    source: str,
    reason: str | None,
) -> None:
    template, read, again = relied
    aggregate: JsonObject = {
        "score_counts": {CRITERION: {"scored": 300, "missing": 10}},
        "score_intervals": {CRITERION: wilson_interval(150, 310)},
        "answered_only": {CRITERION: 0.5},
        "scores": {CRITERION: 150 / 310},
        "human_scores": None,
    }
    pins = {SCORER.name: SCORER.version}
    controls = {} if counted is None else {CRITERION: counted}
    one = read[CRITERION]
    assert one is not None
    assert run_controls.why_not_borne_out(counted, one.document) == fault
    found: Any = run_controls.corrected_scores(template, pins, aggregate, read, controls, {})
    assert (found[CRITERION]["errors_from"], found[CRITERION]["reason"]) == (source, reason)
    unqualified = measures.unqualified_measures(
        template, {SCORER.name: "judged"}, pins, again, controls
    )
    assert unqualified == ({} if fault is None else {CRITERION: f"llm_judge: {fault}"})
    certified = measures.certified(template, pins, again, aggregate, controls, {})[
        "corrected_scores"
    ]
    assert measures.near_corrected(certified, found) == found
    codes = run_controls.contradictions(read, controls)
    assert {CONTRADICTED} & {*measures.measure_findings(again, controls)} == {*codes}
    assert bool(codes) is (fault == run_controls.WORSE)
    if counted is not None:  # and without a qualification they correct a score alone
        bare: JsonObject = {**template, "scoring": {"criteria_scorers": SCORERS}}
        alone: Any = run_controls.corrected_scores(bare, pins, aggregate, {}, controls, {})
        certified = measures.certified(bare, pins, {}, aggregate, controls, {})["corrected_scores"]
        assert measures.near_corrected(certified, alone) == alone
        assert alone[CRITERION]["errors_from"] == "controls"


PROGRAMME: list[Any] = [{"step_id": "c", "input_spec": {"params": {"criteria_scorers": SCORERS}}}]
COUNTED: dict[str, Any] = {
    "step_id": "c",
    "result": {
        "computation": "judge_controls@1",
        "over": "episodes",
        "output": {"criteria": {CRITERION: GOOD}},
    },
}


@pytest.mark.parametrize(
    ("edit", "there"),
    [
        (lambda _: None, True),
        (lambda it: it["result"].update(over="a dataset of its own"), False),
        (lambda it: it["result"].update(computation="my_controls@1"), False),
        (lambda it: it.update(step_id="another judge"), False),
        (lambda it: it.update(result={}), False),
    ],
)
def test_only_what_counts_the_run_s_own_answers_as_it_scores_them_is_read(
    edit: Callable[[Any], None], *, there: bool
) -> None:
    step = copy.deepcopy(COUNTED)
    edit(step)
    other = copy.deepcopy(PROGRAMME[0])
    other["step_id"] = "another judge"
    other["input_spec"]["params"]["criteria_scorers"][CRITERION]["params"]["judge"] = "kind"
    template: JsonObject = {
        "scoring": {"criteria_scorers": SCORERS},
        "resolution_programme": [*PROGRAMME, other],
    }
    expected = {CRITERION: GOOD} if there else {}
    assert run_controls.read_controls(template, [step]) == expected
    assert measures.counted_controls(template, [step]) == expected


@pytest.mark.parametrize(
    "edit",
    [
        lambda it: it.pop("independent"),
        lambda it: it["true"].update(right=1000),
        lambda it: it["by_source"]["planted"]["specificity"].update(high="1"),
        lambda it: it.update(recognised="no"),
        lambda it: it["false"].update(asked=True),
    ],
)
def test_tallies_of_another_form_are_none_to_the_check(edit: Callable[[Any], None]) -> None:
    step = copy.deepcopy(COUNTED)
    edit(step["result"]["output"]["criteria"][CRITERION])
    template: JsonObject = {
        "scoring": {"criteria_scorers": SCORERS},
        "resolution_programme": PROGRAMME,
    }
    assert measures.counted_controls(template, [step]) == {}
