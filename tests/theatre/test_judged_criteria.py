"""Criteria that a judge is asked about: asked once, recorded, and played again by the check."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.forged_bundle import (
    COMPUTATIONS,
    REGISTRY,
    SANITISER,
    SCORERS,
    check,
    load,
    store,
)
from tests.theatre.record_edits import Edit, forged, of_record
from tests.theatre.runs import (
    ERROR,
    LATE,
    PILOT,
    REFUSED,
    WRONG,
    Answer,
    Finished,
    ScriptedAdapter,
    Stage,
    answer_as_asked,
    episodes,
    pilot_stage,
    right,
)
from theatre.cli.plan_command import read_pilot
from theatre.engine.bundle_check import CheckReport
from theatre.engine.bundle_check.evidence import Installed
from theatre.engine.bundle_check.opened import OpenedEpisodes
from theatre.engine.bundle_check.standalone import verify
from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object
from theatre.engine.errors import ProgrammeError, TheatreError
from theatre.engine.models import (
    Computation,
    Judgement,
    Scorer,
    ScorerKind,
    ScoringCase,
    exchanges_of,
    replay_judgement,
)
from theatre.engine.oracle_contract import OracleInvocationRequest
from theatre.engine.replay import RunContext
from theatre.engine.replay.usage import UsageTally
from theatre.engine.rlmf_export import judge_seed_of, judgements_of, outputs_of
from theatre.files.recorded_run import BundledRun

ANSWERS: dict[int, JsonObject] = {
    2: {"output_data": {"colour": "blue", "recall": 0.9}},
    3: {**ERROR},
    4: {**REFUSED},
    5: {"output_data": {"recall": 0.5}},
    6: {"output_data": {"colour": None, "recall": 0.5}},
}


def judgement(case: ScoringCase) -> Judgement:
    """Ask whether it is right, and then how sure that is; nothing where there is no colour."""
    if case.answer is None:
        return None
    first = yield {"is_right": case.answer, "expected": case.expected}
    second = yield {"how_sure": first["said"]}
    # A scorer may spoil what it is shown: the record does not change by that.
    first["said"] = "spoilt"
    sure = second["said"]
    return float(sure) if isinstance(sure, int | float) else float("nan")


def score(case: ScoringCase) -> float | None:
    return replay_judgement(judgement(case), case.exchanges)


TOLD = Scorer(
    name="told",
    version="1",
    kind=ScorerKind.JUDGED,
    params_schema={"type": "object"},
    score=score,
    judgement=judgement,
)
SHIPPED = replace(TOLD, name="llm_judge")
CHANGES: dict[str, JsonValue] = {
    "/scoring/criteria_scorers/colour/scorer": "told",
    "/scorer_pins": {"told": "1", "numeric_tolerance": "1"},
    "/execution_policy/on_threshold": "continue",
}


SEEN = Computation(
    name="seen",
    version="1",
    kind=ScorerKind.JUDGED,
    params_schema={"type": "object"},
    compute=lambda lines, _: {"lines": [*map(parse_object, lines)]},
)
INSTALLED = {**COMPUTATIONS, SEEN.name: SEEN}


class LostError(TheatreError):
    """Nobody can be asked any more."""

    code = "lost"


class RuledJudge:
    """Says whether two values are the same, and how sure that is; `lost_at` ends it.

    `most` is how many were waiting for an answer at a time.
    """

    def __init__(self, *, lost_at: int | None = None) -> None:
        self.asked: list[JsonObject] = []
        self.most = self._waiting = 0
        self._lost_at = lost_at

    async def ask(self, request: JsonObject) -> JsonObject:
        if len(self.asked) == self._lost_at:
            raise LostError("expected a judge, got none")
        self.asked.append(request)
        self._waiting += 1
        self.most = max(self.most, self._waiting)
        await asyncio.sleep(0)
        self._waiting -= 1
        if "is_right" in request:
            return {"said": request["is_right"] == request["expected"]}
        return {"said": 1 if request["how_sure"] else 0.25}


def run_with(stage: Stage, judge: RuledJudge | None, answer: Answer = answer_as_asked) -> Finished:
    def around(surroundings: RunContext) -> RunContext:
        return replace(surroundings, judge=judge, computations=INSTALLED)

    scorers = {**SCORERS, "told": TOLD, SHIPPED.name: SHIPPED}
    return stage.run(ScriptedAdapter(answer), around=around, scorers=scorers, batch_size=1)


def checked(bundle: Path, *scorers: Scorer) -> CheckReport:
    return check(
        bundle,
        scorers={**SCORERS, **{scorer.name: scorer for scorer in scorers}},
        computations=INSTALLED,
    )


def failed(report: CheckReport) -> set[str]:
    return {line.id for line in report.checks if line.status.value == "fail"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("judged")
    return run_with(pilot_stage(folder, episodes(6, ANSWERS), changes=CHANGES), RuledJudge())


def test_what_is_asked_second_may_depend_on_what_was_answered_first(run: Finished) -> None:
    assert run.record(2)["judgements"] == {
        "colour": [
            {"request": {"is_right": "blue", "expected": "red"}, "answer": {"said": False}},
            {"request": {"how_sure": False}, "answer": {"said": 0.25}},
        ]
    }


def test_scores_follow_from_the_answers_and_gaps_stay_gaps(run: Finished) -> None:
    lines: list[Any] = run.lines("scores/per_episode.jsonl")
    # Right, wrong, failed, refused, without the field, and undefined for that answer.
    assert [line["scores"]["colour"] for line in lines] == [1, 0.25, 0, None, 0, None]


@pytest.mark.parametrize(("seq", "asked"), [(3, {}), (4, {}), (5, {}), (6, {"colour": []})])
def test_a_judge_is_not_asked_about_what_is_not_there(
    run: Finished, seq: int, asked: JsonObject
) -> None:
    assert run.record(seq)["judgements"] == asked


@pytest.mark.parametrize(("weight", "named"), [(0.09, ["unweighted-judge:recall"]), (0.1, [])])
def test_what_a_judge_decides_for_next_to_nothing_is_named_where_it_decides_elsewhere(
    tmp_path: Path, weight: float, named: list[str]
) -> None:
    chosen: JsonObject = {
        "scorer": SHIPPED.name,
        "params": {"field": "colour", "expected": "colour"},
    }
    changes: dict[str, JsonValue] = {
        "/scoring/criteria_scorers": {"colour": chosen, "recall": chosen},
        "/scorer_pins": {SHIPPED.name: "1"},
        "/criteria/weights": {"colour": 1 - weight, "recall": weight},
    }
    run = run_with(pilot_stage(tmp_path, episodes(3), changes=changes), RuledJudge())
    findings = cast("list[str]", run.document("certificate.json")["findings"])
    assert [one for one in findings if one.startswith("unweighted")] == named
    assert failed(checked(run.bundle, SHIPPED)) == set()
    assert not any(verify(run.bundle, now=LATE).problems.values())


def test_the_check_asks_all_of_it_again(run: Finished) -> None:
    report = checked(run.bundle, TOLD)
    assert (failed(report), report.unavailable) == (set(), ())


@pytest.mark.parametrize(
    ("seq", "edit", "found"),
    [
        (1, of_record("judgements", "colour", 1, "answer", "said", to=0.5), "scores"),
        (1, of_record("judgements", "colour", 0, "answer", "said", to=False), "invocations"),
        (1, of_record("judgements", "colour", 0, "request", "is_right", to="x"), "invocations"),
        (1, of_record("judgements", "colour", 0, to=None), "invocations"),
        (1, of_record("judgements", "colour", 0, to={}), "invocations"),
        (1, of_record("judgements", "colour", to=None), "invocations"),
        (1, of_record("judgements", "colour", to=[]), "invocations"),
        (1, of_record("judgements", to=[]), "invocations"),
        (1, of_record("judgements", "recall", to=[]), "invocations"),
        (3, of_record("judgements", "colour", to=[]), "invocations"),
        (1, lambda record: record.pop("judgements"), "invocations"),
        (1, lambda record: record.pop("judge_seed"), "invocations"),
        (1, of_record("judge_seed", to="0" * 64), "invocations"),
        (1, lambda record: record["judgements"]["colour"].pop(), "invocations"),
        (1, lambda record: record["judgements"]["colour"].reverse(), "invocations"),
        (1, lambda record: record["judgements"]["colour"].append("once more"), "invocations"),
    ],
)
def test_whoever_rewrites_an_exchange_is_found_out(
    run: Finished, tmp_path: Path, seq: int, edit: Edit, found: str
) -> None:
    bundle = store(forged(load(run.bundle), seq, edit), tmp_path / "bundle")
    assert found in failed(checked(bundle, TOLD))


def test_without_the_scorer_its_exchanges_are_unavailable_and_not_wrong(run: Finished) -> None:
    report = checked(run.bundle)
    assert "invocations" not in failed(report)
    assert report.unavailable


def test_judgements_of_a_template_without_a_judge_are_refused(tmp_path: Path) -> None:
    plain = pilot_stage(tmp_path / "plain", episodes(2)).run(ScriptedAdapter())
    edit = of_record("judgements", to={})
    bundle = store(forged(load(plain.bundle), 1, edit), tmp_path / "bundle")
    assert "invocations" in failed(checked(bundle, TOLD))


def test_a_judge_that_is_lost_stops_the_run_which_goes_on_where_it_was(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(4), changes=CHANGES)
    with pytest.raises(LostError):
        run_with(stage, RuledJudge(lost_at=5))
    assert stage.state == "ACTIVE"
    judge = RuledJudge()
    run = run_with(stage, judge)
    assert len(judge.asked) == 4
    assert failed(checked(run.bundle, TOLD)) == set()
    aggregate: Any = run.document("scores/aggregate.json")
    assert aggregate["score_counts"]["colour"]["scored"] == 4


def test_without_a_judge_nobody_is_called(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(2), changes=CHANGES)
    with pytest.raises(ProgrammeError, match="expected a judge"):
        run_with(stage, None)
    assert stage.state == "COMMITTED"


# Episodes that are asked more than once: each answer is judged for itself.

K = 3
REPEATED: dict[str, JsonValue] = {
    **CHANGES,
    "/schema_version": "2.2.0",
    "/execution_policy/repeats": K,
    "/resolution_programme": [
        {"step_id": "invoke", "type": "construct_invocation", "construct_id": PILOT},
        {
            "step_id": "look",
            "type": "deterministic_computation",
            "input_spec": {"computation": "seen", "params": {"criteria_scorers": {}}},
        },
        {"step_id": "aggregate", "type": "aggregation"},
    ],
}


class InTurn:
    """Answers rightly, wrongly, and not at all, each episode beginning somewhere else."""

    def __init__(self) -> None:
        self._asked: dict[str, int] = {}

    def __call__(self, request: OracleInvocationRequest) -> JsonObject:
        number = self._asked.get(request.episode_id, int(str(request.input_data["seq"])))
        self._asked[request.episode_id] = number + 1
        return [right(request), {**WRONG}, {**REFUSED}, {**ERROR}][number % 4]


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    stage = pilot_stage(tmp_path_factory.mktemp("repeated"), episodes(4), changes=REPEATED)
    return run_with(stage, RuledJudge(), InTurn())


def answers_in(record: JsonObject) -> list[JsonObject | None]:
    """Return each answer of a record, None for one that is none."""
    ends: Any = record["calls"]
    responses = [call["attempts"][-1]["response"] for call in ends]
    return [one["output_data"] if one["status"] == "success" else None for one in responses]


def asked_about(answer: JsonObject | None) -> JsonObject:
    if answer is None:
        return {}
    is_right = answer["colour"] == "red"
    first: JsonObject = {"is_right": answer["colour"], "expected": "red"}
    return {
        "colour": [
            {"request": first, "answer": {"said": is_right}},
            {"request": {"how_sure": is_right}, "answer": {"said": 1 if is_right else 0.25}},
        ]
    }


def test_each_answer_is_judged_and_their_mean_is_the_score(repeated: Finished) -> None:
    sure = {True: 1, False: 0.25}
    for line in repeated.lines("scores/per_episode.jsonl"):
        record: Any = repeated.record(int(str(line["seq"])))
        answers = answers_in(record)
        assert len(answers) == K
        assert record["judgements"] == [asked_about(answer) for answer in answers]
        assert len({*record["judge_seed"]}) == K
        each = [0 if one is None else sure[one["colour"] == "red"] for one in answers]
        stated: Any = line
        assert stated["repeats"]["scores"]["colour"] == each
        assert stated["scores"]["colour"] == pytest.approx(sum(each) / K, abs=1e-9)
        # Of the answers one is shown where there is room for one: with what was asked about it.
        shown = next(at for at, one in enumerate(answers) if one is not None)
        assert outputs_of(record) == {PILOT: answers[shown]}
        assert judgements_of(record) == record["judgements"][shown]
        assert judge_seed_of(record) == record["judge_seed"][shown]
        asked = [asked_about(one).get("colour", []) for one in answers]
        assert [*exchanges_of(record)] == [one for of in asked for one in cast("Any", of)]


def test_a_computation_that_scores_is_given_every_answer(repeated: Finished) -> None:
    (found,) = [
        step["result"]["output"]["lines"]
        for step in cast("Any", repeated.document("resolution.json"))["steps"]
        if step["step_id"] == "look"
    ]
    expected = []
    for seq in range(1, 5):
        record: Any = repeated.record(seq)
        for repeat, answer in enumerate(answers_in(record)):
            ended = record["calls"][repeat]["attempts"][-1]["response"]["status"]
            expected.append(
                {
                    "episode_id": f"pilot-{seq}",
                    "input_data": {"seq": seq},
                    "expected_output": {"colour": "red", "recall": 0.5},
                    "label": None,
                    "repeat": repeat,
                    "outcome": {"success": "scored", "refused": "excluded"}.get(ended, "missing"),
                    "hops": {} if answer is None else {PILOT: answer},
                    "judgements": record["judgements"][repeat],
                    "judge_seed": record["judge_seed"][repeat],
                }
            )
    assert found == expected


def test_a_plan_counts_what_its_pilot_asked_a_judge(repeated: Finished) -> None:
    shares, tally = {"colour": 1.0, "recall": 0.0}, UsageTally({})
    _, costs = read_pilot(BundledRun(repeated.bundle), shares, tally)
    exchanges = [one for seq in range(1, 5) for one in exchanges_of(repeated.record(seq))]
    assert costs.judge_calls == len(exchanges) / (4 * K) > 0


def test_the_check_asks_about_each_answer_again(repeated: Finished) -> None:
    report = checked(repeated.bundle, TOLD)
    assert (failed(report), report.unavailable) == (set(), ())
    assert by_script(repeated.bundle) == set()


def test_a_judge_that_is_lost_between_two_answers_is_asked_about_all_of_the_episode_again(
    tmp_path: Path,
) -> None:
    stage = pilot_stage(tmp_path, episodes(4), changes=REPEATED)
    with pytest.raises(LostError):
        run_with(stage, RuledJudge(lost_at=8))
    judge = RuledJudge()
    run = run_with(stage, judge)
    # Two exchanges about each answer; one episode was complete. One is judged at a time, as one is
    # asked at a time, however many are open.
    assert (len(judge.asked), judge.most) == (3 * 2 * K, 1)
    assert failed(checked(run.bundle, TOLD)) == set()


def by_script(bundle: Path) -> set[str]:
    problems = verify(bundle, now=LATE).problems
    return {name for name, found in problems.items() if found}


def swapped(member: str, record: dict[str, Any]) -> None:
    record[member] = [*reversed(record[member])]


@pytest.mark.parametrize(
    ("edit", "found", "is_found_by_script"),
    [
        (lambda record: swapped("judgements", record), "invocations", False),
        (lambda record: swapped("judge_seed", record), "invocations", True),
        (lambda record: record["judgements"].pop(), "invocations", True),
        (lambda record: record["judge_seed"].pop(), "invocations", True),
        (lambda record: record["judgements"].append({}), "invocations", True),
        (lambda record: record.update(judgements=record["judgements"][0]), "invocations", True),
        (lambda record: record.update(judge_seed=record["judge_seed"][0]), "invocations", True),
        (lambda record: said_of(record)[-1].append("once more"), "invocations", False),
        (lambda record: first_said(record, 0.5), "scores", False),
        (lambda record: first_said(record, None), "scores", False),
    ],
)
def test_no_answer_has_the_exchanges_of_another(
    repeated: Finished, tmp_path: Path, edit: Edit, found: str, *, is_found_by_script: bool
) -> None:
    bundle = store(forged(load(repeated.bundle), 4, edit), tmp_path / "bundle")
    assert found in failed(checked(bundle, TOLD))
    # The script asks no judge again: what was said is the check's to find.
    assert ("invocations" in by_script(bundle)) is is_found_by_script


def first_said(record: dict[str, Any], to: object) -> None:
    """Change how sure a judge was about the first answer that there is."""
    said_of(record)[0][1]["answer"]["said"] = to


def said_of(record: dict[str, Any]) -> list[Any]:
    """Return what a judge was asked about each answer that there is."""
    return [one["colour"] for one in record["judgements"] if one]


@pytest.mark.parametrize("seq", [1, 2, 3, 4])
def test_an_opened_episode_is_judged_again_answer_by_answer(repeated: Finished, seq: int) -> None:
    opened = OpenedEpisodes(
        repeated.document("template.json"),
        Installed(
            scorers={**SCORERS, "told": TOLD},
            computations=INSTALLED,
            runners={},
            sanitiser=SANITISER,
            registry=REGISTRY,
        ),
        theatre_id=repeated.theatre.theatre_id,
        total=4,
    )
    dataset = (repeated.bundle / "ground_truth" / "dataset.jsonl").read_text(encoding="utf-8")
    line: JsonObject = {
        "dataset_line": dataset.splitlines()[seq - 1],
        "label": None,
        "record": repeated.record(seq),
        "result": repeated.lines("scores/per_episode.jsonl")[seq - 1],
    }
    assert opened.check(line, seq=seq).recomputed
    record: Any = line["record"]
    first_said(record, 0.5)
    assert not opened.check(line, seq=seq).recomputed
