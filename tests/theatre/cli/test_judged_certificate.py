"""The certificate of a judged verification: verdicts, counts, passes, the second opinion."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.cli.test_judged_verification import (
    CALLS_A_CHANGE,
    JUDGED,
    Judged,
    judged,
    scored_again,
)
from tests.theatre.forged_bundle import load, records_of
from tests.theatre.forked_echelon import forked
from tests.theatre.verification.messages_server import MessagesService, Verdicts, reading
from tests.theatre.verification.verify_command import COMMITS, REFUSING, write_oracle
from theatre.engine.canonical_json import JsonObject
from theatre.engine.schema_registry import SchemaRegistry
from theatre.verification.certificate import SCHEMA
from theatre.verification.confidence_discipline import read_confidence_discipline
from theatre.verification.scoring_providers import find_origins

PASSES = 2
SURE = """
def summarise(input_data):
    return {
        "summary": "Changes a.py.",
        "key_claims": ["Changes a.py.", "Changes nowhere.py.", "Changes  a.py."],
        "follow_up_response": "1",
        "metadata": {"claim_confidence": [0.1, None, 0.75]},
    }
"""


def moody() -> Verdicts:
    """Return a judge who sees less in every second pass: no claim holds, a change more is told."""
    asked = Counter[str]()

    def judge(data: dict[str, Any]) -> dict[str, Any]:
        kind = next((name for name in ("claims", "summary", "reply") if name in data), "changes")
        asked[kind] += 1
        is_second = asked[kind] % PASSES == 0
        if kind == "reply":
            # The first one is asked before the commitment.
            return {"verdict": "right" if is_second else "wrong"}
        if kind == "claims" and is_second:
            claims = [item["claim"] for item in data["claims"]]
            return {"verdicts": [{"claim": n, "verdict": "not_shown"} for n in claims]}
        said = reading(data)
        if kind == "changes" and is_second:
            said["changes"].append("Changes b.py")
        return said

    return judge


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    folder = tmp_path_factory.mktemp("moody")
    (folder / "oracle.py").write_text(SURE, encoding="utf-8")
    service = MessagesService(moody())
    kept = ("--output", str(folder / "kept"))
    return judged(
        folder, service, "--judge-repeats", str(PASSES), *kept, construct="oracle:summarise"
    )


@pytest.fixture(scope="module")
def certificate(run: Judged) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(certificate_file(run).read_bytes())
    return found


def certificate_file(run: Judged) -> Path:
    return run.folder / "kept" / "verification_certificate.json"


def discipline_of(run: Judged) -> dict[str, Any]:
    found = read_confidence_discipline(run.bundle)
    assert found is not None
    return dict(found)


def test_passes_are_committed_and_averaged_and_their_spread_is_published(run: Judged) -> None:
    assert run.report["check"]["verdict"] == "valid, logged"
    assert len(run.service.requests) == 1 + PASSES * CALLS_A_CHANGE * COMMITS
    scores = run.report["scores"]
    assert {name: scores[name] for name in JUDGED} == {
        "precision": 0.25,
        "recall": 0.75,
        "reply_accuracy": 0.5,
    }
    apart = {name: one["spread"] for name, one in run.opinion["criteria"].items()}
    assert apart == {
        name: {"episodes": COMMITS, "mean": value, "largest": value}
        for name, value in (("precision", 0.5), ("recall", 0.5), ("reply_accuracy", 1))
    }


def test_the_counts_behind_the_scores_are_means_over_passes(certificate: dict[str, Any]) -> None:
    assert SchemaRegistry().validate(SCHEMA, certificate) == []
    assert len(certificate["individual_scores"]) == COMMITS
    for one in certificate["individual_scores"]:
        # Two of the three claims have the same words. One change in one pass, two in the other.
        assert (one["claims_total"], one["claims_supported"]) == (2, 0.5)
        assert (one["changes_total"], one["changes_surfaced"]) == (1.5, 1)
        assert one["precision"] == one["claims_supported"] / one["claims_total"]
        assert one["scoring_model"] == "claude-sonnet-4-6"


def test_how_long_the_judge_took_is_what_was_recorded(
    run: Judged, certificate: dict[str, Any]
) -> None:
    records: dict[int, Any] = dict(records_of(load(run.bundle)))
    took = [
        sum(
            exchange["answer"]["latency_ms"]
            for exchanges in records[seq]["judgements"].values()
            for exchange in exchanges
        )
        for seq in sorted(records)
    ]
    told = [one["scoring_latency_ms"] for one in certificate["individual_scores"]]
    assert (len(took), took) == (COMMITS, told)


def test_confidence_is_held_against_the_verdicts_and_a_claim_counts_once(
    certificate: dict[str, Any],
) -> None:
    calibration = certificate["claim_calibration"]
    # Of claims with the same words the last one is judged, with its confidence.
    assert (calibration["stated"], calibration["without_confidence"]) == (COMMITS, COMMITS)
    assert calibration["supported"] == COMMITS / PASSES
    filled = [one for one in calibration["bins"] if one["count"]]
    assert filled == [
        {
            "low": 0.7,
            "high": 0.8,
            "count": COMMITS,
            "mean_confidence": 0.75,
            "share_supported": 1 / PASSES,
        }
    ]
    assert certificate["brier_reason"] == "fewer-than-100-stated-claims"


def test_of_a_claim_that_half_of_the_passes_bear_out_nobody_says_that_it_held(run: Judged) -> None:
    found = discipline_of(run)
    # Of claims with the same words the last one counts: surer than chance, less than confident.
    assert found["tentative"]["claims"] == found["tentative"]["wrong"] == COMMITS
    assert (found["confident"]["claims"], found["without_confidence"]) == (0, COMMITS)


VOTES = """
def summarise(input_data):
    return {
        "summary": "Changes a.py.",
        "key_claims": [
            *("sure, holds in 3", "sure, holds in 2", "sure, holds in 1", "sure, holds in 0"),
            *("unsure, holds in 2", "unsure, holds in 1", "silent, holds in 3"),
        ],
        "follow_up_response": "1",
        "metadata": {"claim_confidence": [0.9, 0.9, 0.9, 0.9, 0.3, 0.3, None]},
    }
"""


def voting() -> Verdicts:
    """Return a judge for whom a claim holds in as many passes over its change as it says."""
    passes = Counter[str]()

    def judge(data: dict[str, Any]) -> dict[str, Any]:
        if "claims" not in data:
            return reading(data)
        passes[data["diff"]] += 1
        verdicts = [
            {
                "claim": item["claim"],
                "verdict": "supported"
                if passes[data["diff"]] <= int(item["text"].split()[-1])
                else "contradicted",
            }
            for item in data["claims"]
        ]
        return {"verdicts": verdicts}

    return judge


def test_a_claim_counts_once_by_the_majority_of_three_passes(tmp_path: Path) -> None:
    (tmp_path / "oracle.py").write_text(VOTES, encoding="utf-8")
    kept = ("--output", str(tmp_path / "kept"))
    service = MessagesService(voting())
    voted = judged(tmp_path, service, "--judge-repeats", "3", *kept, construct="oracle:summarise")
    found = discipline_of(voted)
    assert (found["confident"]["claims"], found["confident"]["wrong"]) == (4 * COMMITS, 2 * COMMITS)
    assert (found["tentative"]["claims"], found["tentative"]["wrong"]) == (2 * COMMITS, COMMITS)
    assert found["confident"]["share_wrong"]["value"] == 0.5
    assert found["wrong_with_confidence"] == pytest.approx(2 / 3)
    assert found["without_confidence"] == COMMITS
    # The certificate has the mean over passes: 3 + 2 + 1 + 0 + 2 + 1 of three.
    told = json.loads(certificate_file(voted).read_bytes())["claim_calibration"]
    assert (told["stated"], told["supported"]) == (6 * COMMITS, 3 * COMMITS)


def test_the_judge_and_its_second_opinion_stand_in_the_certificate(
    run: Judged, certificate: dict[str, Any]
) -> None:
    judge = certificate["judge"]
    assert (judge["model"], judge["temperature"], judge["repeats"]) == (
        "claude-sonnet-4-6",
        0,
        PASSES,
    )
    assert judge["second_opinion"] == {"beyond": 0.25, **run.opinion}
    # Whoever calls itself by that name: it was asked on this machine.
    ((origin, answers),) = judge["origins"].items()
    assert origin.startswith("http://127.0.0.1:")
    assert answers == PASSES * CALLS_A_CHANGE * COMMITS
    assert sorted(certificate["weights"]) == sorted(JUDGED)


@pytest.mark.parametrize(
    ("recorded", "told"),
    [
        ("https://gateway.example:8443/team?key=1", "https://gateway.example:8443"),
        ("https://me:secret@gateway.example", "https://gateway.example"),
        ("http://[half", "unknown"),
        ("anywhere", "unknown"),
        (None, "unknown"),
    ],
)
def test_of_an_address_no_more_is_told_than_scheme_host_and_port(
    recorded: str | None, told: str
) -> None:
    exchange: JsonObject = {"request": {}, "answer": {"origin": recorded}}
    assert list(find_origins({"judgements": {"precision": [exchange]}})) == [told]


def test_anybody_makes_it_again_without_a_key(run: Judged, tmp_path: Path) -> None:
    same = forked(
        *("check", run.bundle, "--verification", certificate_file(run), "--json"), home=tmp_path
    )
    line = same.document["checks"][-1]
    assert (same.code, line["id"], line["ok"]) == (0, "verification-certificate", True)


def test_it_is_shown_with_judge_and_passes(run: Judged, tmp_path: Path) -> None:
    shown = forked("inspect", certificate_file(run), home=tmp_path)
    assert shown.code == 0
    assert "claude-sonnet-4-6, temperature 0, passes of each answer: 2" in shown.stdout
    assert "asked at     http://127.0.0.1:" in shown.stdout
    rows = [line.split() for line in shown.stdout.splitlines()]
    opinions = {row[0]: row for row in rows if len(row) == 9 and row[0] in JUDGED}
    assert {name: row[-1] for name, row in opinions.items()} == {
        "precision": "0.500",
        "recall": "0.500",
        "reply_accuracy": "1.000",
    }
    assert (run.opinion["flagged"], "disagree" in shown.stdout) == ([], False)
    # More than the 5 % that the specification asks for at most.
    assert "recall: passes of the judge lie 0.500 apart, on average; less than 0.05" in shown.stdout


def test_a_run_that_was_too_short_has_its_judged_scores_in_the_report(tmp_path: Path) -> None:
    construct = write_oracle(tmp_path, REFUSING)
    kept = ("--output", str(tmp_path / "kept"))
    short = judged(tmp_path, MessagesService(reading), *kept, construct=construct)
    assert short.answer.code == 8
    report = scored_again(tmp_path)
    assert report["scores"] == short.report["scores"]
    assert report["scores"]["precision"] == 1
