"""PRODUCT_OBSERVER_V1, run for real: a service asked by HTTP, and the published result."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from tests.theatre.forged_bundle import (
    Effort,
    document,
    failed_ids,
    load,
    resealed,
    store,
    with_document,
)
from tests.theatre.observer_runs import BASELINES, CONSTRUCTS, GROUND_TRUTH, TEMPLATE, run_observer
from tests.theatre.runs import LATE, Finished, checked, with_changes
from theatre.api.connections import replace_construct
from theatre.engine.bundle_check import Verdict
from theatre.engine.bundle_check.standalone import verify
from theatre.engine.canonical_json import JsonObject, canonical_line, sha256_hex
from theatre.engine.clock import format_rfc3339, parse_rfc3339
from theatre.oracles.construct_registry import ConstructRegistry, construct_version

SOURCE, SIGNAL, FRESHNESS = (
    "source_fidelity",
    "signal_classification",
    "canvas_enrichment_freshness",
)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run_observer(tmp_path_factory.mktemp("honest"))


def provenance_step(finished: Finished) -> JsonObject:
    """Return what the computation over the provenance log came to."""
    (step,) = [one for one in finished.steps() if one["step_id"] == "verify_provenance"]
    assert step["status"] == "completed"
    return cast("JsonObject", cast("JsonObject", step["result"])["output"])


def test_the_certificate_says_backtested_and_what_proven_still_needs(honest: Finished) -> None:
    certificate = honest.document("certificate.json")
    assert certificate["verification_tier"] == "BACKTESTED"
    assert certificate["caps"] == [
        "runs-below-3",
        "runs-span-below-90-days",
        "telemetry-missing",
        "attestation-missing",
        "behavioural-signal-missing",
    ]
    counts = cast("JsonObject", certificate["episode_counts"])
    assert (counts["scored"], counts["total"]) == (163, 163)
    assert checked(honest.bundle).consistent


def test_every_call_went_by_http_to_files_that_were_hashed_and_repeats_did_not_differ(
    honest: Finished,
) -> None:
    calls = [call for seq in range(1, 164) for call in honest.calls(seq)]
    assert {(call["adapter"], call["version_source"]) for call in calls} == {("http@1", "computed")}
    assert [call["repeat"] for call in calls].count(1) == 8
    facts = cast("JsonObject", honest.document("tier.json")["facts"])
    assert (facts["determinism_differences"], facts["version_mismatches"]) == (0, 0)


def test_every_input_went_through_the_sanitiser_which_found_nothing_to_change(
    honest: Finished,
) -> None:
    records = [cast("JsonObject", honest.record(seq)["sanitised"]) for seq in range(1, 164)]
    assert {record["sanitiser_version"] for record in records} == {"theatre-sanitise/1.0.0"}
    assert all(record["raw_sha256"] == record["sent_sha256"] for record in records)


def test_the_provenance_log_is_one_intact_chain(honest: Finished) -> None:
    output = provenance_step(honest)
    assert (output["records"], output["intact"], output["first_fault"]) == (163, True, None)


def test_calibration_is_measured_against_what_chance_alone_would_show(honest: Finished) -> None:
    aggregate = honest.document("scores/aggregate.json")
    calibration = cast("dict[str, Any]", aggregate["calibration"])
    assert calibration["criterion"] == SIGNAL
    assert (calibration["probabilities"], calibration["without_probability"]) == (148, 0)
    parts = calibration["decomposition"]
    whole = parts["reliability"] - parts["resolution"] + parts["uncertainty"] + parts["within_bin"]
    assert whole == pytest.approx(calibration["brier_score"], abs=4e-9)
    ece = calibration["ece"]
    assert 0 < ece["expected_if_calibrated"] < ece["upper_95_if_calibrated"] < 1
    certificate = honest.document("certificate.json")
    assert certificate["ece"] == ece["value"]
    assert certificate["brier_score"] == calibration["brier_score"]


class Score(NamedTuple):
    """A criterion's score with its interval."""

    low: float
    score: float
    high: float


def scores(finished: Finished) -> dict[str, Score]:
    certificate = finished.document("certificate.json")
    intervals = cast("dict[str, dict[str, float]]", certificate["score_intervals"])
    return {
        name: Score(intervals[name]["low"], score, intervals[name]["high"])
        for name, score in cast("dict[str, float]", certificate["scores"]).items()
    }


@pytest.mark.parametrize("baseline", BASELINES)
def test_the_observer_is_imperfect_and_above_each_baseline_by_more_than_the_intervals(
    honest: Finished, tmp_path: Path, baseline: str
) -> None:
    version = construct_version(ConstructRegistry.load(CONSTRUCTS).find(baseline))
    template = replace_construct(TEMPLATE, baseline, version=version)
    finished = run_observer(tmp_path, construct_id=baseline, template=template)
    other = scores(finished)
    assert {name for name, one in scores(honest).items() if one.low > other[name].high} == {
        SOURCE,
        SIGNAL,
        FRESHNESS,
    }
    assert all(one.high < 1 for one in scores(honest).values())
    assert finished.document("certificate.json")["construct_version"] == version
    assert checked(finished.bundle).consistent


# --- records that were changed after the fact ------------------------------------------------

CHANGED = frozenset(f"obs-{number:04d}" for number in range(4, 164, 5))
POOLS = "product_observer_v1.jsonl"
LOG = "product_observer_provenance_v1.jsonl"
GOLD = "product_observer_gold_v1.jsonl"
DATASETS = {POOLS: "observer_tasks", LOG: "observer_provenance", GOLD: "gold_labels"}


def records_in(document: dict[str, Any], file: str) -> list[dict[str, Any]]:
    """Return the provenance records that a line of a dataset shows."""
    if file == POOLS:
        return cast("list[dict[str, Any]]", document["input_data"]["records"])
    return [document] if file == LOG else []


def with_records_changed(folder: Path) -> JsonObject:
    """Write ground truth with changed contents; return the template that commits to it."""
    target = folder / "ground_truth"
    target.mkdir()
    hashes: JsonObject = {}
    for file, dataset in DATASETS.items():
        documents = [json.loads(line) for line in (GROUND_TRUTH / file).read_bytes().splitlines()]
        for whole in documents:
            for record in records_in(whole, file):
                record["content"] += " (edited)" if record["id"] in CHANGED else ""
        raw = b"".join(map(canonical_line, documents))
        (target / file).write_bytes(raw)
        hashes[dataset] = sha256_hex(raw)
    return with_changes(TEMPLATE, {"/dataset_hashes": hashes})


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("broken")
    return run_observer(folder / "run", template=with_records_changed(folder), data=folder)


def test_a_broken_chain_is_found_at_its_first_record_and_its_length_counted(
    broken: Finished,
) -> None:
    output = provenance_step(broken)
    assert output == {
        "records": 163,
        "intact": False,
        "first_broken_line": 4,
        "first_fault": "hash",
        "faults": {
            "unreadable": 0,
            "incomplete": 0,
            "hash": len(CHANGED),
            "prev_hash": 0,
            "id": 0,
            "timestamp": 0,
        },
        "head": None,
    }


CAP = "step-failed:verify_provenance"


def test_a_broken_chain_caps_the_tier_by_name(broken: Finished) -> None:
    certificate = broken.document("certificate.json")
    assert (certificate["verification_tier"], certificate["caps"]) == ("UNVERIFIED", [CAP])
    findings = ["answers-in-inputs", "within-item-variance-unknown"]
    assert (certificate["findings"], certificate["expires_at"]) == (findings, None)
    report = checked(broken.bundle)
    assert (report.failed, report.verdict) == ((), Verdict.CONSISTENT)
    assert verify(broken.bundle, now=LATE).word == "consistent"


def test_a_broken_chain_that_the_issuer_leaves_out_is_named(
    honest: Finished, broken: Finished, tmp_path: Path
) -> None:
    """The forger's tier is the honest one, and every hash is made anew."""
    files = load(broken.bundle)
    certificate, tier = document(files, "certificate.json"), document(files, "tier.json")
    resolved_at = parse_rfc3339(cast("str", certificate["theatre_resolved_at"]))
    better: JsonObject = {
        "caps": honest.document("certificate.json")["caps"],
        "expires_at": format_rfc3339(resolved_at + timedelta(days=90)),
    }
    certificate |= better | {"verification_tier": "BACKTESTED"}
    facts, assessment = cast("JsonObject", tier["facts"]), cast("JsonObject", tier["assessment"])
    facts["extra_caps"] = []
    unmet = cast("JsonObject", honest.document("tier.json")["assessment"])["unmet"]
    tier["assessment"] = assessment | better | {"tier": "BACKTESTED", "unmet": unmet}
    forged = with_document(with_document(files, "tier.json", tier), "certificate.json", certificate)
    bundle = store(resealed(forged, Effort.CHAIN), tmp_path / "bundle")
    assert failed_ids(checked(bundle)) == {"tier"}
    alone = verify(bundle, now=LATE).problems
    assert [name for name, found in alone.items() if found] == ["tier"]


def sources(finished: Finished) -> dict[str, float]:
    lines = cast("list[dict[str, Any]]", finished.lines("scores/per_episode.jsonl"))
    return {line["episode_id"]: line["scores"][SOURCE] for line in lines}


def test_with_records_changed_after_the_fact_source_fidelity_falls_by_those_records(
    honest: Finished, broken: Finished
) -> None:
    before, after = sources(honest), sources(broken)
    fallen = {name for name in before if after[name] < before[name]}
    assert fallen == {name for name in CHANGED if before[name] == 1}
    assert {name for name in before if after[name] > before[name]} == set()
    assert scores(broken)[SOURCE].score < scores(honest)[SOURCE].low
    assert checked(broken.bundle).consistent


def test_the_changed_records_are_committed_as_what_they_are(
    honest: Finished, broken: Finished
) -> None:
    certificates = [one.document("certificate.json") for one in (honest, broken)]
    for name in ("commitment_hash", "dataset_hash", "ground_truth_hash", "results_hash"):
        assert certificates[0][name] != certificates[1][name]
    assert certificates[0]["construct_version"] == certificates[1]["construct_version"]
