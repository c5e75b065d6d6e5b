"""Whoever answers nothing, or what was asked, plays the same episodes, and its score is shown."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.echelon_process import REPOSITORY
from tests.theatre.forged_bundle import (
    REGISTRY,
    SANITISER,
    SCORERS,
    Effort,
    document,
    failed_ids,
    load,
    resealed,
    store,
    with_document,
)
from tests.theatre.forged_bundle import check as check_with
from tests.theatre.forked_echelon import forked
from tests.theatre.played_runs import (
    EPISODES,
    PLAYED,
    RUNNER,
    all_knowing,
    guess,
    is_lucky,
    played,
    staged,
    with_runner,
)
from tests.theatre.runs import (
    CHAIN,
    EASEL,
    EASEL_VERSION,
    LATE,
    PILOT,
    Finished,
    ScriptedAdapter,
    call_step,
    pilot_stage,
    with_changes,
)
from theatre.engine.bundle_check import CheckReport
from theatre.engine.bundle_check.standalone import AS_PLAYED, verify
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.coin import Coin, Draws
from theatre.engine.errors import RunStoppedError, TheatreError
from theatre.engine.models import EpisodePlay, EpisodeRunner, GroundTruthEpisode, Turn
from theatre.engine.scoring import (
    BaselineScores,
    DrawnEpisodes,
    TheatreScoringProvider,
    TrivialPlayers,
    wilson_interval,
)
from theatre.engine.templates import product_template, view_template
from theatre.files.datasets import DatasetRoots
from theatre.files.evidence_preview import preview_evidence

Change = Callable[[dict[str, Any]], object]
"""Edits the criteria of `scores/baselines.json` in place."""

FINDING = "baseline-meets-interval"


def luck(draws: Draws) -> JsonObject:
    """Return what is scored for recall, by whoever plays."""
    return right(sum(is_lucky(draws.play_seed(f"guess-{seq}")) for seq in range(1, 5)), 4)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return played(tmp_path_factory.mktemp("guessed"))


def check(bundle: Path, runner: EpisodeRunner = RUNNER) -> CheckReport:
    return check_with(bundle, runners={"guess": runner})


def refused_without_a_scorer(bundle: Path) -> dict[str, list[str]]:
    return {name: found for name, found in verify(bundle, now=LATE).problems.items() if found}


def right(number: int, of: int) -> JsonObject:
    score = round(number / of, 9)
    return {"score": score, "n": of, "interval": wilson_interval(number, of)}


def not_played(reason: str | None) -> JsonObject:
    return {
        "not_applicable": reason,
        **dict.fromkeys(("empty", "copied", "most_frequent", "other_episode")),
    }


def by_trivial_players(empty: JsonObject, copied: JsonObject) -> JsonObject:
    return {
        "not_applicable": None,
        "empty": empty,
        "copied": copied,
        "most_frequent": None,
        "other_episode": None,
    }


# --- what they score ---------------------------------------------------------------------------


def test_trivial_players_play_the_episodes_of_the_run(run: Finished) -> None:
    """With its seeds: what the coin decides is the same for them."""
    assert run.document("certificate.json")["scores"] == {"colour": 1, "recall": 0.75}
    baselines = run.document("scores/baselines.json")
    assert run.document("certificate.json")["baselines"] == baselines
    assert baselines == {
        "episodes": 5,
        "criteria": {
            "colour": by_trivial_players(empty=right(4, 5), copied=right(2, 5)),
            "recall": by_trivial_players(empty=right(3, 4), copied=right(3, 4)),
        },
    }


def test_the_check_plays_them_again(run: Finished) -> None:
    report = check(run.bundle)
    assert (report.consistent, failed_ids(report)) == (True, set())
    verdict = verify(run.bundle, now=LATE)
    assert (verdict.word, AS_PLAYED in verdict.notes) == ("consistent", True)


def test_whoever_is_right_by_silence_is_found(run: Finished) -> None:
    """All answers were right, and so would silence have been: the certificate says so."""
    certificate: Any = run.document("certificate.json")
    intervals = certificate["score_intervals"]
    assert certificate["baselines"]["criteria"]["colour"]["empty"]["score"] == 0.8
    assert intervals["colour"]["low"] < 0.8
    found = [code for code in certificate["findings"] if code.startswith(FINDING)]
    assert found == [f"{FINDING}:colour", f"{FINDING}:recall"]


def test_a_construct_that_does_better_than_silence_is_not(tmp_path: Path) -> None:
    records: list[JsonObject] = [
        {
            "episode_id": f"guess-{seq}",
            "input_data": {"shown": "grey", "usual": "brown"},
            "expected_output": {"colour": "red", "recall": 0.7},
        }
        for seq in range(60)
    ]
    stage = pilot_stage(tmp_path, records, changes=PLAYED)
    red = ScriptedAdapter(lambda _: {"output_data": {"colour": "red"}})
    finished = stage.run(red, around=with_runner)
    certificate: Any = finished.document("certificate.json")
    assert certificate["baselines"]["criteria"]["colour"] == by_trivial_players(
        empty=right(0, 60), copied=right(0, 60)
    )
    # Of recall nobody gets anything, the construct included.
    found = [code for code in certificate["findings"] if code.startswith(FINDING)]
    assert (certificate["scores"], found) == ({"colour": 1, "recall": 0}, [f"{FINDING}:recall"])


def alternating(input_data: JsonObject, _: str) -> EpisodePlay:
    """Ask both constructs; red is who says nothing, and the whole question is the other's echo."""
    first = yield Turn(0, {"of": input_data["shown"]})
    second = yield Turn(1, {"heard": [*first]})
    said = (len(first), len(second))
    return {"colour": {(0, 0): "red", (1, 1): "blue"}.get(said, "mixed"), "recall": 0.5}


def test_a_trivial_player_answers_for_every_construct(tmp_path: Path) -> None:
    both = EpisodeRunner(name="guess", version="1", max_calls=2, play=alternating, constructs=2)
    stage = staged(tmp_path, {**CHAIN})
    adapters = {EASEL: ScriptedAdapter(version=EASEL_VERSION), PILOT: ScriptedAdapter()}
    finished = stage.run(adapters, around=partial(with_runner, runner=both))
    assert finished.document("scores/baselines.json")["criteria"] == {
        "colour": by_trivial_players(empty=right(4, 5), copied=right(1, 5)),
        "recall": by_trivial_players(empty=right(4, 4), copied=right(4, 4)),
    }
    assert check(finished.bundle, both).consistent


def test_an_answer_of_another_shape_than_committed_is_worth_nothing(tmp_path: Path) -> None:
    """As of any construct: its turn fails. A question has a colour, silence has none."""
    shape: JsonValue = {"type": "object", "required": ["colour"]}
    stage = staged(tmp_path, {"/resolution_programme/0": call_step(output_spec=shape)})
    finished = stage.run(ScriptedAdapter(all_knowing(stage)), around=with_runner)
    assert finished.document("scores/baselines.json")["criteria"] == {
        "colour": by_trivial_players(empty=right(0, 5), copied=right(2, 5)),
        "recall": by_trivial_players(empty=right(0, 4), copied=luck(stage.draws)),
    }
    assert check(finished.bundle).consistent


def bare(input_data: JsonObject, seed: str) -> EpisodePlay:
    """Play `guess`; the result has nothing that no expectation could have."""
    result = yield from guess(input_data, seed)
    return {"colour": result["colour"], "recall": 0.5}


def test_a_criterion_without_a_field_is_played_for_too(tmp_path: Path) -> None:
    """Its answer needs no place: the whole of what the runner makes is what the scorer sees."""
    whole: dict[str, JsonValue] = {
        "/scoring/criteria_scorers/colour": {"scorer": "exact_match", "params": {}}
    }
    stage, runner = staged(tmp_path, whole), replace(RUNNER, play=bare)
    construct = ScriptedAdapter(all_knowing(stage))
    finished = stage.run(construct, around=partial(with_runner, runner=runner))
    # Of the fifth episode no recall is expected.
    assert finished.document("scores/baselines.json")["criteria"] == {
        "colour": by_trivial_players(empty=right(4, 5), copied=right(2, 5)),
        "recall": by_trivial_players(empty=right(4, 4), copied=right(4, 4)),
    }
    assert check(finished.bundle, runner).consistent
    assert refused_without_a_scorer(finished.bundle) == {}


def test_what_the_construct_said_has_the_baselines_of_an_answer(tmp_path: Path) -> None:
    """One colour for everything is right in four of five, though no turn is answered by it."""
    runner = replace(RUNNER, own_words=frozenset({"colour"}))
    finished = played(tmp_path, runner=runner)
    criteria: Any = finished.document("scores/baselines.json")["criteria"]
    assert criteria["colour"] == by_trivial_players(empty=right(4, 5), copied=right(2, 5)) | {
        "most_frequent": right(4, 5),
        "other_episode": right(3, 5),
    }
    # How much is remembered is no word of the construct's.
    assert criteria["recall"]["most_frequent"] is criteria["recall"]["other_episode"] is None
    assert check(finished.bundle, runner).consistent
    assert refused_without_a_scorer(finished.bundle) == {}
    assert failed_ids(check(finished.bundle)) >= {"baselines"}


# --- where there are none, and why ---------------------------------------------------------------


def stubborn(input_data: JsonObject, seed: str) -> EpisodePlay:
    """Go on asking for as long as no colour is named."""
    said = None
    while said is None:
        answer = yield {"shown": input_data["shown"], "seed": seed}
        said = answer.get("colour")
    return {"colour": said, "recall": 0.5}


def strict(input_data: JsonObject, seed: str) -> EpisodePlay:
    """Take it for granted that a colour is named."""
    answer = yield {"shown": input_data["shown"], "seed": seed}
    return {"colour": answer["colour"], "recall": 0.5}


@pytest.mark.parametrize(
    "runner",
    [replace(RUNNER, play=stubborn), replace(RUNNER, play=strict), replace(RUNNER, max_calls=1)],
    ids=["goes on", "raises", "asks once too often"],
)
def test_of_a_runner_that_needs_a_construct_the_certificate_says_that(
    tmp_path: Path, runner: EpisodeRunner
) -> None:
    finished = played(tmp_path / "run", runner=runner)
    certificate: Any = finished.document("certificate.json")
    assert certificate["baselines"] == {
        "episodes": 5,
        "criteria": dict.fromkeys(("colour", "recall"), not_played("unplayable")),
    }
    assert not [code for code in certificate["findings"] if code.startswith(FINDING)]
    assert check(finished.bundle, runner).consistent
    assert refused_without_a_scorer(finished.bundle) == {}
    # The same said of a runner that does play to an end is refused by who has it.
    assert failed_ids(check(finished.bundle)) >= {"baselines"}


def gone(input_data: JsonObject, seed: str) -> EpisodePlay:
    """Miss what the runner itself needs as soon as nothing is said."""
    answer = yield {"shown": input_data["shown"], "seed": seed}
    if "colour" not in answer:
        raise TheatreError("expected the world to be there, got none")
    return {"colour": answer["colour"], "recall": 0.5}


def test_a_world_that_is_gone_is_no_property_of_the_episodes(run: Finished) -> None:
    """So it is not noted as one: a run is settled again when the world is back."""
    broken = replace(RUNNER, play=gone)
    players = TrivialPlayers(
        broken,
        product_template(run.document("template.json")).hops,
        draws=Draws(Coin(bytes(32)), "c"),
        registry=REGISTRY,
    )
    episode = GroundTruthEpisode(seq=1, episode_id="e-1", input_data={"shown": "red"})
    with pytest.raises(TheatreError, match="expected the world to be there"):
        players.answer(episode, copies=False)
    with pytest.raises(TheatreError, match="expected the world to be there"):
        check(run.bundle, broken)


def test_a_criterion_that_a_judge_scores_is_not_played_for(run: Finished) -> None:
    template = run.document("template.json")
    judged: dict[str, JsonValue] = {
        "/scoring/criteria_scorers/colour": {"scorer": "llm_judge", "params": {"field": "colour"}},
        "/scorer_pins": {},
    }
    provider = TheatreScoringProvider(with_changes(template, judged), SCORERS)
    players = TrivialPlayers(
        RUNNER,
        product_template(template).hops,
        draws=Draws(Coin(bytes(32)), "c"),
        registry=REGISTRY,
    )
    scores = BaselineScores(
        provider, [PILOT], players=players, commitment_hash="c", under_test=PILOT
    )
    with contextlib.closing(DrawnEpisodes("c")) as drawn:
        assert scores.as_document(drawn, {}) == {
            "episodes": 0,
            "criteria": {"colour": not_played("judged"), "recall": not_played(None)},
        }


# --- what a forger would write ----------------------------------------------------------------


def forged(run: Finished, folder: Path, change: Change) -> Path:
    """Store the bundle with other baselines, on the certificate too."""
    files = load(run.bundle)
    baselines: Any = document(files, "scores/baselines.json")
    change(baselines["criteria"])
    certificate = document(files, "certificate.json") | {"baselines": baselines}
    changed = with_document(files, "scores/baselines.json", baselines)
    changed = with_document(changed, "certificate.json", certificate)
    return store(resealed(changed, Effort.CERTIFIED_HASH), folder)


def put(*place: str, to: JsonValue) -> Change:
    def change(criteria: dict[str, Any]) -> None:
        for name in place[:-1]:
            criteria = criteria[name]
        criteria[place[-1]] = to

    return change


ONE = "baselines.json/criteria/colour"


@pytest.mark.parametrize(
    ("change", "problems"),
    [
        (put("colour", "empty", to=right(0, 5)), []),
        (put("colour", "empty", to=None), []),
        (put("colour", "copied", "n", to=6), [f"{ONE}/copied: no mean of up to 5 episodes"]),
        (put("colour", "most_frequent", to=right(0, 5)), []),
        (
            put("colour", to=not_played("unplayable")),
            [f"{ONE}/not_applicable: expected b'null', got b'\"unplayable\"'"],
        ),
        (
            put("colour", to=not_played("interactive")),
            [f"{ONE}/not_applicable: expected b'null', got b'\"interactive\"'"],
        ),
        (
            lambda criteria: criteria.update(
                dict.fromkeys(("colour", "recall"), not_played("unplayable"))
            ),
            [],
        ),
    ],
)
def test_baselines_that_nobody_played_are_refused(
    run: Finished, tmp_path: Path, change: Change, problems: list[str]
) -> None:
    """By the check always; without a runner only where they can be none at all."""
    folder = forged(run, tmp_path / "forged", change)
    assert failed_ids(check(folder)) >= {"baselines", "certificate-fields"}
    assert refused_without_a_scorer(folder).get("baselines", []) == problems


def test_another_version_of_the_runner_plays_nothing(run: Finished) -> None:
    report = check(run.bundle, replace(RUNNER, version="2"))
    assert {line.id for line in report.unavailable} == {"invocations", "baselines"}
    assert failed_ids(report) == set()


# --- how much is played ------------------------------------------------------------------------


def test_at_most_a_thousand_episodes_are_played_and_none_once_it_is_to_stop(run: Finished) -> None:
    seeds: list[str] = []

    def counted(input_data: JsonObject, seed: str) -> EpisodePlay:
        seeds.append(seed)
        return guess(input_data, seed)

    template, draws = run.document("template.json"), Draws(Coin(bytes(32)), "c")
    players = TrivialPlayers(
        replace(RUNNER, play=counted),
        product_template(template).hops,
        draws=draws,
        registry=REGISTRY,
    )
    provider = TheatreScoringProvider(template, SCORERS)
    scores = BaselineScores(
        provider, [PILOT], players=players, commitment_hash="c", under_test=PILOT
    )

    def stop() -> None:
        if len(seeds) >= 2010:
            raise RunStoppedError("enough")

    with contextlib.closing(DrawnEpisodes("c")) as drawn:
        for seq in range(1, 1101):
            episode = GroundTruthEpisode(
                seq=seq,
                episode_id=f"e-{seq}",
                input_data={"shown": "red", "usual": "blue"},
                expected_output={"colour": "red", "recall": 0.5},
            )
            drawn.add(episode, episode.input_data, {"colour": "red", "recall": 0.5}, tuple)
        made: Any = scores.as_document(drawn, {})
        cases = [episode.episode_id for episode, _ in drawn.cases()]
        with pytest.raises(RunStoppedError):
            scores.as_document(drawn, {}, stop)
    twice = [draws.play_seed(one) for one in cases for _ in range(2)]
    assert seeds == [*twice, *twice[:10]]
    assert (made["episodes"], made["criteria"]["colour"]) == (
        1000,
        by_trivial_players(empty=right(0, 1000), copied=right(1000, 1000)),
    )


def test_a_run_that_is_cancelled_waits_for_no_more_than_one_episode(tmp_path: Path) -> None:
    """Five are played with the construct; the first without it is the last."""
    begun: list[str] = []
    stage = staged(tmp_path)
    construct = ScriptedAdapter(all_knowing(stage))

    async def cancelled() -> None:
        loop, is_cancelled = asyncio.get_running_loop(), threading.Event()

        def cancel() -> None:
            running.cancel()
            is_cancelled.set()

        def counted(input_data: JsonObject, seed: str) -> EpisodePlay:
            begun.append(seed)
            if len(begun) > len(EPISODES):
                loop.call_soon_threadsafe(cancel)
                is_cancelled.wait()
            return guess(input_data, seed)

        runner = replace(RUNNER, play=counted)
        running = asyncio.ensure_future(
            stage.perform(construct, around=partial(with_runner, runner=runner))
        )
        await running

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert len(begun) == len(EPISODES) + 1


def test_the_check_can_be_stopped_while_it_plays(run: Finished) -> None:
    heard: list[int] = []

    def progress(number: int) -> None:
        heard.append(number)

    check_with(run.bundle, runners={"guess": RUNNER}, progress=progress)
    assert heard == [5, 0, 1, 2, 3, 4]


# --- before a commitment -----------------------------------------------------------------------


def test_what_trivial_players_score_is_seen_before_a_commitment(tmp_path: Path) -> None:
    stage = staged(tmp_path)
    view: Any = view_template(stage.template)
    told: Any = preview_evidence(
        stage.template,
        view,
        DatasetRoots([tmp_path]),
        SCORERS,
        runners={"guess": RUNNER},
        sanitiser=SANITISER,
        registry=REGISTRY,
    )
    colour = by_trivial_players(empty=right(4, 5), copied=right(2, 5))
    assert told["baselines"]["criteria"]["colour"] == colour
    # The seeds of recall are those of another coin: this one is not drawn yet.
    draws = Draws(Coin(bytes(32)), stage.draws.commitment_hash)
    recall = by_trivial_players(empty=luck(draws), copied=luck(draws))
    assert told["baselines"]["criteria"]["recall"] == recall


def test_validate_plays_the_episodes_of_a_shipped_template(tmp_path: Path) -> None:
    path = REPOSITORY / "fixtures" / "templates" / "product_debate_team_v1.json"
    told = forked("theatre", "validate", path, "--json", home=tmp_path / "h")
    criteria = told.document["evidence"]["baselines"]["criteria"]
    assert (told.code, criteria["decision"]) == (
        0,
        by_trivial_players(empty=right(0, 120), copied=right(0, 120))
        | {"most_frequent": right(44, 120), "other_episode": right(41, 120)},
    )


def test_validate_says_which_runner_is_not_to_be_had(tmp_path: Path) -> None:
    stage = staged(tmp_path)
    (tmp_path / "template.json").write_bytes(canonical_bytes(stage.template))
    validated = forked(
        "theatre", "validate", tmp_path / "template.json", "--json", home=tmp_path / "h"
    )
    assert (validated.code, validated.document["evidence"]) == (0, None)
    assert validated.document["warnings"][:1] == [
        {
            "pointer": "/product_theatre_config/episode_runner",
            "rule": "no-evidence-preview",
            "detail": "expected episode_runner guess to be installed; "
            "there are: axion, axion_pair, debate",
        }
    ]
