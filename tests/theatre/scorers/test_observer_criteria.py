"""The Observer data through the scorers that its criteria name, as `docs/scorers.md` says."""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.scorers.scoring_cases import case_of
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import (
    CriterionResult,
    GroundTruthEpisode,
    InvocationStatus,
    Scored,
    read_episodes,
    read_gold_labels,
)
from theatre.engine.scoring import EpisodeAnswer, TheatreScoringProvider
from theatre.scorers import load_scorers
from theatre.scorers.brier import SCORER as BRIER
from theatre.scorers.label_accuracy import SCORER as LABEL_ACCURACY

CHECKOUT = Path(__file__).parents[3]
GROUND_TRUTH = CHECKOUT / "fixtures" / "ground_truth"
SOURCE, FRESHNESS = "source_fidelity", "canvas_enrichment_freshness"
ONE, ZERO = Scored(1_000_000_000), Scored(0)

Record = dict[str, Any]


def documented_criteria() -> JsonObject:
    """Return `criteria_scorers` as the documentation gives them for Observer."""
    text = (CHECKOUT / "docs" / "scorers.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```json\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (found,) = [json.loads(block) for block in blocks if SOURCE in block]
    return cast("JsonObject", found)


@pytest.fixture(scope="module")
def provider() -> TheatreScoringProvider:
    chosen = documented_criteria()
    document: JsonObject = {
        "criteria": {"criteria_ids": list(chosen)},
        "scoring": {"criteria_scorers": chosen},
    }
    return TheatreScoringProvider(document, load_scorers())


@pytest.fixture(scope="module")
def episodes() -> list[GroundTruthEpisode]:
    with (GROUND_TRUTH / "product_observer_v1.jsonl").open("rb") as lines:
        return list(read_episodes(lines))


def shown(episode: GroundTruthEpisode) -> dict[str, Record]:
    records = cast("list[Record]", episode.input_data["records"])
    return {record["id"]: record for record in records}


def spans(episode: GroundTruthEpisode) -> list[str]:
    source = cast("dict[str, Any]", episode.expected_output)["source"]
    return cast("list[str]", source["quotes"])


def answer_from(record: Record, quote: str) -> JsonObject:
    """Return the answer of a construct that attributes the finding to `record`."""
    return {
        "source": {
            "record_id": record["id"],
            "content_hash": hashlib.sha256(record["content"].encode()).hexdigest(),
            "quote": quote,
        },
        "update": {"canvas": "any", "source_time": record["timestamp"]},
    }


def scores(
    provider: TheatreScoringProvider, episode: GroundTruthEpisode, output: JsonObject
) -> tuple[CriterionResult, CriterionResult]:
    answer = EpisodeAnswer(status=InvocationStatus.SUCCESS, hops={"observer": output})
    results = provider.score_episode(episode, answer).by_criterion
    return results[SOURCE], results[FRESHNESS]


def test_the_record_itself_with_any_of_its_quotes_scores_1(
    provider: TheatreScoringProvider, episodes: list[GroundTruthEpisode]
) -> None:
    answers = [
        scores(provider, episode, answer_from(shown(episode)[episode.episode_id], quote))
        for episode in episodes
        for quote in spans(episode)
    ]
    assert len(answers) > 163
    assert set(answers) == {(ONE, ONE)}


def distractors(
    episodes: list[GroundTruthEpisode],
) -> Iterator[tuple[GroundTruthEpisode, Record, Record]]:
    for episode in episodes:
        records = shown(episode)
        right = records.pop(episode.episode_id)
        for wrong in records.values():
            yield episode, right, wrong


def test_any_other_record_of_the_pool_is_no_source_and_only_an_older_one_is_fresh_in_part(
    provider: TheatreScoringProvider, episodes: list[GroundTruthEpisode]
) -> None:
    cited = 0
    for episode, right, wrong in distractors(episodes):
        source, freshness = scores(provider, episode, answer_from(wrong, wrong["content"]))
        assert source == ZERO
        assert isinstance(freshness, Scored)
        if wrong["timestamp"] > right["timestamp"]:
            assert freshness == ZERO
        else:
            assert freshness.nano < ONE.nano
        cited += 1
    assert cited > 3 * 163


@pytest.mark.parametrize("path", ["as_of", "canvas_states.0.last_source_time"])
def test_times_of_the_input_that_are_no_record_s_earn_little_freshness(
    provider: TheatreScoringProvider, episodes: list[GroundTruthEpisode], path: str
) -> None:
    total = 0
    for episode in episodes:
        states = cast("Any", episode.input_data)["canvas_states"]
        time = episode.input_data["as_of"] if path == "as_of" else states[0]["last_source_time"]
        _, freshness = scores(provider, episode, {"update": {"source_time": time}})
        assert isinstance(freshness, Scored)
        total += freshness.nano
    assert total < 0.2 * 163 * ONE.nano


def test_a_record_changed_after_the_fact_lowers_source_fidelity_where_it_is_the_source(
    provider: TheatreScoringProvider, episodes: list[GroundTruthEpisode]
) -> None:
    seen = {}
    for episode in episodes:
        for record in shown(episode).values():
            record["content"] += " (edited)" if record["id"] == "obs-0012" else ""
        record = shown(episode)[episode.episode_id]
        seen[episode.episode_id], _ = scores(
            provider, episode, answer_from(record, spans(episode)[0])
        )
    assert {episode_id for episode_id, score in seen.items() if score != ONE} == {"obs-0012"}
    assert seen["obs-0012"] == ZERO


def test_a_gold_label_is_right_only_where_both_of_its_parts_are() -> None:
    with (GROUND_TRUTH / "product_observer_gold_v1.jsonl").open("rb") as lines:
        gold = read_gold_labels(lines)
    for label in gold.values():
        right: JsonObject = {**label, "confidence": 0.7}
        wrong: JsonObject = {**right, "signal": "HIGH" if label["signal"] != "HIGH" else "LOW"}
        answers = [case_of({}, answer, expected=label) for answer in (right, wrong)]
        assert [LABEL_ACCURACY.score(case) for case in answers] == [1.0, 0.0]
        assert [BRIER.score(case) for case in answers] == [0.91, 0.51]
    assert len(gold) == 148
