"""Episodes that are asked more than once: one score each, whatever way a construct tries."""

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.forged_bundle import Effort, changed, lines, load, resealed, store, with_lines
from tests.theatre.forked_echelon import forked
from tests.theatre.pages.verify_page import ask, of_bundle
from tests.theatre.repeated_runs import (
    EverySecond,
    Nth,
    at_random,
    repeated_run,
    repeated_stage,
    share,
)
from tests.theatre.runs import (
    ERROR,
    LATE,
    REFUSED,
    TEMPLATE,
    WRONG,
    Answer,
    Finished,
    ScriptedAdapter,
    checked,
    episodes,
    pilot_stage,
    recorded_lines,
    right,
    with_changes,
)
from tests.theatre.scored_runs import SCORER
from theatre.api.template_files import validate_template
from theatre.engine.bundle_check.standalone import verify
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import RunStoppedError
from theatre.engine.models import InvocationStatus, Scored
from theatre.engine.oracle_contract import Attempt, OracleInvocationRequest
from theatre.engine.scoring import CriterionPlan, RepeatScores
from theatre.engine.scoring.arithmetic import NANO
from theatre.engine.scoring.repeats import RepeatTally, mean_result
from theatre.engine.scoring.tallies import ResampledUnits

SOAK = bool(os.environ.get("ECHELON_SOAK"))
SUCCESS = InvocationStatus.SUCCESS
RIGHT: JsonObject = right(cast("Any", None))
K = 3
REPEATED = 24


@pytest.fixture(scope="module")
def random_run(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return repeated_run(tmp_path_factory.mktemp("random"), REPEATED, K, at_random)


def problems(finished: Finished) -> tuple[list[str], dict[str, list[str]], list[str]]:
    """Return what the check, `verify_bundle.py` and verify.js have against a bundle.

    What verify.js leaves to the check of repeats is named there.
    """
    by_check = [line.id for line in checked(finished.bundle).checks if line.status == "fail"]
    plain = verify(finished.bundle, now=LATE)
    (page,) = ask([of_bundle(finished.bundle)])
    assert {line["status"] for line in page["value"]["lines"]} >= {"ok"}
    return (
        by_check,
        {name: found for name, found in plain.problems.items() if found},
        [f"{line['id']}: {line}" for line in page["value"]["lines"] if line["status"] == "failed"],
    )


def test_an_episodes_score_is_the_mean_of_its_answers(random_run: Finished) -> None:
    for line in random_run.lines("scores/per_episode.jsonl"):
        repeats = cast("dict[str, Any]", line["repeats"])
        for name, score in cast("dict[str, float]", line["scores"]).items():
            own = repeats["scores"][name]
            assert len(own) == K
            assert score == pytest.approx(sum(own) / K, abs=1e-9)


def test_both_checks_compute_every_number_again(random_run: Finished) -> None:
    assert problems(random_run) == ([], {}, [])


def test_the_order_of_questions_is_the_coins_and_mixes_episodes(tmp_path: Path) -> None:
    stage = repeated_stage(tmp_path, 20, K)
    adapter = ScriptedAdapter()
    stage.run(adapter)
    asked = [one.invocation_id for one in adapter.asked]
    places = {
        stage.draws.invocation_id(stage.theatre_id, seq=seq, repeat=repeat): (seq, repeat)
        for seq in range(1, 21)
        for repeat in range(K)
    }
    order = [places[one] for one in asked]
    expected = [
        place
        for block in (range(1, 17), range(17, 21))
        for _, place in sorted(
            (stage.draws.repeat_rank(f"pilot-{seq}", repeat), (seq, repeat))
            for seq in block
            for repeat in range(K)
        )
    ]
    assert order == expected
    assert order != sorted(order)


@pytest.mark.parametrize("limit", [1, 5])
def test_no_more_calls_are_out_than_were_committed(tmp_path: Path, limit: int) -> None:
    out, most = 0, 0

    class Counting(ScriptedAdapter):
        async def invoke(self, request: OracleInvocationRequest) -> Attempt:
            nonlocal out, most
            out += 1
            most = max(most, out)
            await asyncio.sleep(0)
            attempt = await super().invoke(request)
            out -= 1
            return attempt

    stage = repeated_stage(tmp_path, 20, K, {"/execution_policy/max_concurrency": limit})
    stage.run(Counting())
    assert most == limit


def facts_and_caps(finished: Finished) -> tuple[dict[str, Any], list[str]]:
    tier = cast("dict[str, Any]", finished.document("tier.json"))
    return tier["facts"], tier["assessment"]["caps"]


def test_ten_episodes_asked_five_times_are_ten(tmp_path: Path) -> None:
    finished = repeated_run(tmp_path, 10, 5, at_random)
    facts, caps = facts_and_caps(finished)
    assert (facts["replay_count"], facts["distinct_inputs"]) == (10, 10)
    assert {"replays-below-50", "criterion-n-below-30:colour"} <= set(caps)
    assert finished.document("certificate.json")["verification_tier"] == "UNVERIFIED"
    assert problems(finished) == ([], {}, [])


LIARS: dict[str, tuple[Callable[[], Answer], float, dict[str, int], set[str]]] = {
    "fails every second call": (
        EverySecond,
        0.5,
        {"asked": 20, "failed": 10, "refused": 0},
        {"failure-rate-above-20"},
    ),
    "answers the first time alone, then fails": (
        lambda: Nth(RIGHT, ERROR),
        0.5,
        {"asked": 20, "failed": 10, "refused": 0},
        {"failure-rate-above-20"},
    ),
    "answers rightly the first time, then wrongly": (
        lambda: Nth(RIGHT, WRONG),
        0.5,
        {"asked": 20, "failed": 0, "refused": 0},
        set(),
    ),
    "answers the first time alone, then refuses": (
        lambda: Nth(RIGHT, REFUSED),
        0.5,
        {"asked": 20, "failed": 0, "refused": 10},
        set(),
    ),
    "hides a failure behind a refusal": (
        lambda: Nth(REFUSED, ERROR),
        0.0,
        {"asked": 20, "failed": 10, "refused": 10},
        {"failure-rate-above-20", "nothing-scored"},
    ),
}


@pytest.mark.parametrize("liar", list(LIARS))
def test_no_answer_hides_those_that_are_missing(tmp_path: Path, liar: str) -> None:
    make, score, answers, wanted = LIARS[liar]
    # With an honest episode in front: a run in which nothing is scored has no bundle.
    honest = {"/execution_policy/on_threshold": "continue"}
    answer = make()
    finished = repeated_run(
        tmp_path,
        11,
        2,
        lambda request: RIGHT if request.input_data["seq"] == 11 else answer(request),
        honest,
    )
    facts, caps = facts_and_caps(finished)
    expected = answers | {"asked": answers["asked"] + 2}
    assert facts["answers"] == expected
    aggregate = cast("dict[str, Any]", finished.document("scores/aggregate.json"))
    assert aggregate["scores"]["colour"] == pytest.approx((10 * score + 1) / 11, abs=1e-9)
    assert wanted - {"nothing-scored"} <= set(caps)
    assert problems(finished) == ([], {}, [])


def test_failures_end_a_run_that_is_to_end(tmp_path: Path) -> None:
    finished = repeated_run(tmp_path, 40, 2, EverySecond())
    lines = finished.lines("scores/per_episode.jsonl")
    outcomes = [line["outcome"] for line in lines]
    # 17 of the 80 answers exceed a fifth of them: about 17 episodes with a failure each.
    assert outcomes.count("not_run") > 15
    assert {line["repeats"] for line in lines if line["outcome"] == "not_run"} == {None}
    assert "episodes-not-run" in facts_and_caps(finished)[1]
    assert problems(finished) == ([], {}, [])


def test_a_certificate_names_both_estimands(random_run: Finished) -> None:
    certificate = cast("dict[str, Any]", random_run.document("certificate.json"))
    repeats = certificate["repeats"]
    assert (repeats["k"], repeats["asked"]) == (K, K * REPEATED)
    colour = repeats["criteria"]["colour"]
    assert colour["items_like_these"] == certificate["score_intervals"]["colour"]
    assert colour["these_items"]["method"] == "within_item_normal"
    # Chances between 0 and 1 differ more than answers to one question do on average.
    assert colour["items_that_vary"] > REPEATED / 3
    assert 0.1 < colour["within_item_variance"] < 0.25
    passes = colour["pass"]
    assert passes["any"] == sorted(passes["any"])
    assert passes["all"] == sorted(passes["all"], reverse=True)
    assert passes["any"][0] == passes["all"][0] == certificate["scores"]["colour"]
    assert "within-item-variance-unknown" not in certificate["findings"]


def test_answers_that_differ_when_each_is_asked_once_leave_the_variance_unknown(
    tmp_path: Path,
) -> None:
    records, changes = episodes(30), {"/execution_policy/deterministic_sample": 30}
    stage = pilot_stage(tmp_path / "varies", records, changes=changes)
    varies = stage.run(ScriptedAdapter(at_random))
    assert "within-item-variance-unknown" in cast(
        "list[str]", varies.document("certificate.json")["findings"]
    )
    assert problems(varies) == ([], {}, [])
    stage = pilot_stage(tmp_path / "steady", records, changes=changes)
    steady = stage.run(ScriptedAdapter()).document("certificate.json")
    assert "within-item-variance-unknown" not in cast("list[str]", steady["findings"])


FORGERIES: dict[str, Callable[[dict[str, Any]], object]] = {
    "an answer that failed scores": lambda line: line["repeats"]["scores"]["colour"].__setitem__(
        line["repeats"]["statuses"].index("error"), 1
    ),
    "a failure is no failure": lambda line: line["repeats"]["statuses"].__setitem__(
        line["repeats"]["statuses"].index("error"), "success"
    ),
    "a repeat is left out": lambda line: [
        one.pop() for one in (line["repeats"]["statuses"], *line["repeats"]["scores"].values())
    ],
    "the best answer is the score": lambda line: line["scores"].update(colour=1),
}


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    changes: dict[str, Any] = {"/execution_policy/on_threshold": "continue"}
    return repeated_run(tmp_path_factory.mktemp("failing"), 4, 2, Nth(RIGHT, ERROR), changes)


@pytest.mark.parametrize("forgery", list(FORGERIES))
def test_no_check_takes_a_line_that_says_more_than_was_answered(
    tmp_path: Path, failing: Finished, forgery: str
) -> None:
    files = load(failing.bundle)
    stated = lines(files, "scores/per_episode.jsonl")
    FORGERIES[forgery](cast("Any", stated[0]))
    forged = with_lines(files, "scores/per_episode.jsonl", stated)
    refused = store(resealed(forged, Effort.CERTIFIED_HASH), tmp_path / "forged")
    by_check = [line.id for line in checked(refused).failed]
    plain = [name for name, found in verify(refused, now=LATE).problems.items() if found]
    (page,) = ask([of_bundle(refused)])
    not_green = [*page["value"]["failed"], *page["value"]["unchecked"]]
    assert all("scores" in found for found in (by_check, plain, not_green))


@pytest.mark.parametrize("member", ["within_item_variance", "items_that_vary", "items"])
def test_no_check_takes_a_certificate_that_says_less_than_varied(
    tmp_path: Path, random_run: Finished, member: str
) -> None:
    files = load(random_run.bundle)

    def calmer(whole: JsonObject) -> None:
        cast("Any", whole)["repeats"]["criteria"]["colour"][member] = 0

    for path in ("scores/aggregate.json", "certificate.json"):
        files = changed(files, path, calmer)
    refused = store(resealed(files, Effort.CERTIFIED_HASH), tmp_path / "forged")
    (page,) = ask([of_bundle(refused)])
    assert "aggregate" in [line.id for line in checked(refused).failed]
    assert verify(refused, now=LATE).problems["aggregate"]
    assert "repeats" in page["value"]["unchecked"]


# A run that dies in the middle of an episode's repeats.


@pytest.mark.parametrize("calls", [1, 25, 50, 60, 70] if SOAK else [25])
def test_a_killed_run_comes_to_the_same_results(
    tmp_path: Path, random_run: Finished, calls: int
) -> None:
    child = os.fork()
    if child == 0:
        seen = 0

        def killed(request: OracleInvocationRequest) -> JsonObject:
            nonlocal seen
            seen += 1
            if seen > calls:
                os.kill(os.getpid(), signal.SIGKILL)
            return at_random(request)

        repeated_stage(tmp_path, REPEATED, K).run(ScriptedAdapter(killed), batch_size=1)
        os.kill(os.getpid(), signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    stage = repeated_stage(tmp_path, REPEATED, K)
    recorded = recorded_lines(stage.folder)
    adapter = ScriptedAdapter(at_random)
    finished = stage.run(adapter, batch_size=1)
    assert len(adapter.asked) == K * (REPEATED - len(recorded))
    hashes = [
        one.document("scores/aggregate.json")["results_hash"] for one in (finished, random_run)
    ]
    assert hashes[0] == hashes[1]
    assert problems(finished)[0] == []


def test_a_run_that_is_to_stop_begins_no_further_repeat(
    tmp_path: Path, random_run: Finished
) -> None:
    stage = repeated_stage(tmp_path, REPEATED, K)
    adapter = ScriptedAdapter(at_random)
    with pytest.raises(RunStoppedError):
        stage.run(
            adapter,
            around=lambda context: replace(context, is_stopping=lambda: len(adapter.asked) >= 40),
        )
    assert len(adapter.asked) == 40
    finished = stage.run(ScriptedAdapter(at_random))
    aggregate, whole = (one.document("scores/aggregate.json") for one in (finished, random_run))
    assert aggregate["results_hash"] == whole["results_hash"]


# What reads one answer alone.


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"/execution_policy/deterministic_sample": 1}, "deterministic_sample 0"),
        ({"/product_theatre_config/episode_runner": "mci"}, "episode_runner single_call"),
        ({"/product_theatre_config/adapter_type": "imported"}, "a construct that is asked"),
        (
            {
                "/resolution_programme/1": {
                    "step_id": "walk",
                    "type": "deterministic_computation",
                    "input_spec": {"computation": "provenance_chain"},
                }
            },
            "no computation over episodes",
        ),
        (
            {
                "/scoring/criteria_scorers/colour": {
                    "scorer": "llm_judge",
                    "params": {"judge": {"repeats": 3}},
                }
            },
            "at most 5",
        ),
        # Judges of debates are asked once, and do not say so.
        (
            {
                "/scoring/criteria_scorers/colour": {
                    "scorer": "debate_judge",
                    "params": {"panel": {"judges": [{}, {}, {}], "split": "mean"}},
                }
            },
            "at most 5",
        ),
    ],
)
def test_what_reads_one_answer_is_refused(changes: dict[str, Any], wanted: str) -> None:
    repeated: dict[str, Any] = {"/schema_version": "2.2.0", "/execution_policy/repeats": 2}
    template = with_changes(TEMPLATE, repeated | changes)
    found = [one for one in validate_template(template).errors if one.rule == "repeats-fit"]
    assert [one.pointer for one in found] == ["/execution_policy/repeats"]
    assert wanted in str(found[0].detail)


# The intervals, of constructs whose skill is known.

PAGE = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")


def skilled(run: int, items: int, k: int) -> tuple[list[Fraction], list[list[int]]]:
    """Return each item's chance of being answered rightly, spread evenly, and its k answers."""
    skills = [share(f"skill {run} {item}") for item in range(items)]
    return skills, [
        [NANO * (share(f"{run} {item} {n}") < skill) for n in range(k)]
        for item, skill in enumerate(skills)
    ]


def these_items(run: int) -> bool:
    """Return whether the interval of these items holds the mean of their own chances."""
    skills, answers = skilled(run, 50, 3)
    tally = RepeatTally({"colour": Fraction(1)}, 3)
    for nanos in answers:
        tally.add(RepeatScores((SUCCESS,) * 3, {"colour": nanos}))
    mean = Fraction(sum(map(sum, answers)), 50 * 3 * NANO)
    scores = {"colour": mean, "composite_score": mean}
    found = cast("Any", tally.as_document(scores, clustered=False))["criteria"]["colour"]
    interval = found["these_items"]
    return bool(interval["low"] <= sum(skills) / 50 <= interval["high"])


def items_like_these(run: int) -> bool:
    """Return whether the interval over episode means holds the mean of all chances, 1/2."""
    plan = CriterionPlan(criterion_id="c0", scorer=SCORER, params={}, weight=Fraction(1))
    units = ResampledUnits([plan])
    for nanos in skilled(run, 50, 3)[1]:
        units.add({"c0": mean_result(SUCCESS, [*map(Scored, nanos)])}, None)
    interval = cast("Any", units.criterion_interval(0, seed=f"{run:064x}"))
    return bool(interval["low"] <= 0.5 <= interval["high"])


def test_the_interval_of_these_items_holds_their_mean() -> None:
    runs = 1000 if SOAK else 100
    covered = sum(map(these_items, range(runs))) / runs
    assert covered == pytest.approx(0.95, abs=3 * (0.95 * 0.05 / runs) ** 0.5)
    if SOAK:
        assert f"mean of the episodes' own chances in {covered:.1%}".replace("%", " %") in PAGE


def test_an_interval_of_items_like_these_holds_the_mean_of_all() -> None:
    runs = 1000 if SOAK else 20
    covered = sum(map(items_like_these, range(runs))) / runs
    assert covered == pytest.approx(0.95, abs=3 * (0.95 * 0.05 / runs) ** 0.5)
    if SOAK:
        assert (
            f"`items_like_these` the mean of all chances in {covered:.1%}".replace("%", " %")
            in PAGE
        )


# What people are shown.


def test_it_is_shown_in_words(tmp_path: Path, random_run: Finished) -> None:
    repeats = cast("dict[str, Any]", random_run.document("certificate.json")["repeats"])
    vary = f"{repeats['criteria']['colour']['items_that_vary']} of {REPEATED} episodes vary"
    page = tmp_path / "report.html"
    written = forked("report", random_run.bundle, "-o", page, home=tmp_path)
    assert written.code == 0, written.stderr
    assert vary in page.read_text(encoding="utf-8")
    assert f"Each episode was asked {K} times" in page.read_text(encoding="utf-8")
    episode = forked("theatre", "episode", random_run.bundle, "2", home=tmp_path)
    assert "each score is the mean of" in episode.stdout
