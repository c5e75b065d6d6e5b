"""The training records of a verification: its certificate's calibration, and no made-up option."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.forked_echelon import forked
from tests.theatre.rlmf_runs import every_ending
from tests.theatre.verification.confident_oracle import COMMITS, Verified
from theatre.engine.rlmf_export import SealedBundle, measured_calibration
from theatre.engine.schema_registry import SchemaRegistry
from theatre.verification.certificate import training_calibration

BROKEN, DECLINED = 20, 4


@pytest.fixture(scope="module")
def run(confident: Verified) -> Verified:
    return confident


@pytest.fixture(scope="module")
def records(run: Verified) -> list[dict[str, Any]]:
    out = run.folder / "records.ndjson"
    answer = forked(
        *("theatre", "export", run.report["theatre_id"], "--out", out), home=run.folder / "home"
    )
    assert answer.code == 0, answer.stderr
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def test_every_record_fits_the_schema_and_has_the_certificates_calibration(
    run: Verified, records: list[dict[str, Any]]
) -> None:
    ours = run.certificate
    names = ("brier", "sample_size", "agent_accuracy", "precision", "recall", "reply_accuracy")
    assert len(records) == COMMITS
    for record in records:
        assert SchemaRegistry().validate("echelon_rlmf_schema.json", record) == []
        assert record["calibration"] == {name: ours[name] for name in names}
    assert (ours["sample_size"], ours["brier"] is None) == (COMMITS - 2, False)


def test_no_record_says_of_free_text_that_it_met_an_option_or_fell_short(
    records: list[dict[str, Any]],
) -> None:
    for record in records:
        assert (record["action_taken"], record["replay_output_class"]) == ("none", "none")
        settlement = record["settlement"]
        assert (settlement["resolved_option"], settlement["success"]) == ("none", None)


def test_the_scores_of_each_change_are_told(run: Verified, records: list[dict[str, Any]]) -> None:
    for record, line in zip(records, run.lines(), strict=True):
        assert record["source_episode_id"] == line["episode_id"]
        assert record["settlement"]["criteria_scores"] == line["scores"]
    quality = [record["metadata"]["data_quality"] for record in records]
    assert (quality[DECLINED], quality[BROKEN], quality[BROKEN + 1]) == (
        "marginal",
        "poor",
        "excellent",
    )


def test_other_theatres_say_what_the_engine_measured(tmp_path: Path) -> None:
    sealed = SealedBundle(every_ending(tmp_path).bundle)
    assert training_calibration(sealed) == measured_calibration(sealed)
