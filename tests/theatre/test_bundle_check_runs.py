"""The independent check over other honest runs, and over what a whole forgery comes to."""

from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.theatre.conftest import EVERY_OUTCOME, SmallRun, episode, run_small_theatre
from tests.theatre.forged_bundle import (
    Effort,
    Files,
    changed,
    check,
    document,
    failed_ids,
    load,
    resealed,
    store,
    with_document,
)
from tests.theatre.record_edits import Record, records_in, with_all
from tests.theatre.runs import COIN, LATE
from theatre.engine.bundle_check.standalone import verify
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.coin import Draws
from theatre.engine.tier_assigner import Dispute, DisputeStatus, TierHistory

PART_1 = "invocations/part-00001.jsonl"
PART_2 = "invocations/part-00002.jsonl"


def failing_and_fine(total: int) -> list[JsonObject]:
    """Return episodes of which every second one fails."""
    return [episode(n, [n, 1], "err" if n % 2 else None) for n in range(1, total + 1)]


@pytest.fixture(scope="module")
def in_parts(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A run of 1,010 episodes, whose records lie in two parts."""
    episodes = [episode(n, [n, 2]) for n in range(1, 1011)]
    run = run_small_theatre(
        tmp_path_factory.mktemp("parts"), episodes=episodes, gold=[], batch_size=100
    )
    assert run.certificate["verification_tier"] == "UNVERIFIED"
    return load(run.sealed)


@pytest.fixture(scope="module")
def ended_early(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A run of 20 episodes that ended when the failures passed its threshold."""
    run = run_small_theatre(
        tmp_path_factory.mktemp("early"),
        episodes=failing_and_fine(20),
        template_changes={
            "/execution_policy/on_threshold": "settle",
            "/execution_policy/failure_threshold": 0.25,
        },
    )
    return load(run.sealed)


def test_a_bundle_in_parts_passes(in_parts: Files, tmp_path: Path) -> None:
    assert {PART_1, PART_2} == {name for name in in_parts if name.startswith("invocations/")}
    bundle = store(in_parts, tmp_path / "bundle")
    assert failed_ids(check(bundle)) == set()
    assert verify(bundle, now=LATE).word == "consistent"


class StoppedError(Exception):
    """What a caller ends a check with."""


def test_a_caller_hears_of_every_hundred_episodes_and_may_end_the_check(
    in_parts: Files, tmp_path: Path
) -> None:
    bundle, heard = store(in_parts, tmp_path / "bundle"), list[int]()
    assert check(bundle, progress=heard.append).consistent
    assert heard == [*range(100, 1001, 100), 1010]

    def stop(read: int) -> None:
        heard.append(read)
        if read == 300:
            raise StoppedError

    heard.clear()
    with pytest.raises(StoppedError):
        check(bundle, progress=stop)
    assert heard == [100, 200, 300]


def cut(files: Files, name: str, number: int) -> Files:
    kept = files[name].splitlines(keepends=True)
    return files | {name: b"".join(kept[:number] + kept[number + 1 :])}


# fmt: off
SPOILT: list[tuple[str, Callable[[Files], Files]]] = [
    ("a record less in the middle", lambda f: cut(f, PART_1, 500)),
    ("a record less at the end", lambda f: cut(f, PART_2, 9)),
    ("parts exchanged", lambda f: f | {PART_1: f[PART_2], PART_2: f[PART_1]}),
    ("records twice", lambda f: f | {PART_2: f[PART_2] + f[PART_2]}),
    ("a part of 1,010", lambda f: f | {PART_1: f[PART_1] + f[PART_2]}),
    ("a part more", lambda f: f | {"invocations/part-00003.jsonl": f[PART_2]}),
    ("both layouts", lambda f: f | {"invocations/episode_000001.json":
                                    f[PART_1].splitlines(keepends=True)[0]}),
    ("a number spelt otherwise", lambda f: {n.replace("part-00001", "part-000001"): raw
                                            for n, raw in f.items()}),
]
# fmt: on


@pytest.mark.parametrize("spoil", [pytest.param(edit, id=name) for name, edit in SPOILT])
def test_parts_that_were_tampered_with_are_named(
    in_parts: Files, tmp_path: Path, spoil: Callable[[Files], Files]
) -> None:
    forged = store(resealed(spoil(in_parts), Effort.CERTIFIED_HASH), tmp_path / "bundle")
    assert "invocations" in failed_ids(check(forged))
    assert verify(forged, now=LATE).problems["invocations"] != []


def test_a_run_that_ended_at_its_threshold_passes(ended_early: Files, tmp_path: Path) -> None:
    report = check(store(ended_early, tmp_path / "bundle"))
    assert report.consistent
    told = {line.id: line.actual for line in report.checks}
    # Of 20 episodes 5 may fail: the sixth failure is episode 11.
    assert (told["invocations"], told["scores"]) == ("11 records", "20 lines")


def test_a_record_behind_the_end_of_a_run_is_named(ended_early: Files, tmp_path: Path) -> None:
    last = ended_early["invocations/episode_000011.json"]
    forged = resealed(
        ended_early | {"invocations/episode_000012.json": last}, Effort.CERTIFIED_HASH
    )
    failed = failed_ids(check(store(forged, tmp_path / "bundle")))
    assert failed == {"invocations", "audit-episodes", "resolution"}


def test_a_call_at_a_time_leaves_no_answer_behind_the_end(
    ended_early: Files, tmp_path: Path
) -> None:
    """Not even one that is the committed call in every other way."""
    records = records_in(ended_early)
    behind = deepcopy(records[10])
    behind |= {"seq": 12, "episode_id": "sum-12"}
    receipt = document(ended_early, "commitment_receipt.json")
    draws = Draws(COIN, str(receipt["commitment_hash"]))
    call = behind["calls"][0]
    invocation_id = draws.invocation_id(str(receipt["theatre_id"]), seq=12)
    call["request"] |= {
        "episode_id": draws.alias("sum-12"),
        "invocation_id": invocation_id,
        "input_data": {"numbers": [12, 1]},
    }
    call["attempts"][0]["response"] |= {"invocation_id": invocation_id}
    told = with_all(ended_early, records | {12: behind})

    def discard(resolution: Record) -> None:
        resolution["steps"][0]["result"]["episodes_discarded"] = 1

    forged = resealed(changed(told, "resolution.json", discard), Effort.CERTIFIED_HASH)
    bundle = store(forged, tmp_path / "bundle")
    assert {line.id: line.expected for line in check(bundle).failed} == {
        "invocations": "no record of episode 12: the run had ended"
    }
    alone = verify(bundle, now=LATE).problems
    assert {name: found for name, found in alone.items() if found} == {
        "invocations": ["records behind the end of a run that called one episode at a time"]
    }


def test_a_run_that_hides_its_later_failures_is_named(ended_early: Files, tmp_path: Path) -> None:
    """Records and batches up to episode 10 look like a run that ended there; it may not."""
    forged = {name: raw for name, raw in ended_early.items() if "_000011" not in name}
    report = check(store(resealed(forged, Effort.CERTIFIED_HASH), tmp_path / "bundle"))
    told = {line.id: line.expected for line in report.failed}
    assert told["invocations"] == "a record of episode 11"


CHANGES: list[dict[str, JsonValue]] = [
    {"/scoring/holdout_split": 0},
    {"/criteria/weights": {}},
    {"/execution_policy/retry_policy": {}, "/execution_policy/timeout_seconds": 1.5},
    {"/product_theatre_config/construct_chain": ["sums"]},
    {"/resolution_programme/0/timeout_seconds": 2, "/resolution_programme/1/step_id": "sum up"},
    {"/version_pins/methodology_version": "3.1", "/execution_policy/max_refusal_rate": 0.05},
    {"/scorer_pins": {}, "/criteria/criteria_human": ""},
]


@pytest.mark.parametrize("changes", CHANGES, ids=lambda changes: next(iter(changes)))
def test_other_committed_choices_pass_as_well(
    tmp_path: Path, changes: dict[str, JsonValue]
) -> None:
    quick = [e for e in EVERY_OUTCOME if e["episode_id"] in {"sum-1", "sum-2", "sum-4", "sum-6"}]
    run = run_small_theatre(tmp_path, episodes=quick, template_changes=changes)
    report = check(run.sealed)
    assert failed_ids(report) == set()
    assert report.consistent


def backtested(folder: Path, history: TierHistory | None = None) -> SmallRun:
    """Run 60 good episodes with every expectation, so that every criterion is measured."""
    episodes = [episode(n, [n, 2]) for n in range(1, 61)]
    gold: list[JsonObject] = [
        {"episode_id": f"sum-{n}", "label": {"even": n % 2 == 0}, "labeller": "a test"}
        for n in range(1, 61)
    ]
    return run_small_theatre(folder, episodes=episodes, gold=gold, history=history)


def test_a_backtested_bundle_passes_and_its_expiry_cannot_be_moved(tmp_path: Path) -> None:
    run = backtested(tmp_path / "run")
    assert run.certificate["verification_tier"] == "BACKTESTED"
    assert check(run.sealed).consistent
    files = load(run.sealed)
    later = "2999-01-01T00:00:00.000000Z"
    certificate = document(files, "certificate.json") | {"expires_at": later}
    tier = document(files, "tier.json")
    assessment = tier["assessment"]
    assert isinstance(assessment, dict)
    tier["assessment"] = assessment | {"expires_at": later}
    forged = with_document(with_document(files, "certificate.json", certificate), "tier.json", tier)
    report = check(store(resealed(forged, Effort.CERTIFIED_HASH), tmp_path / "bundle"))
    assert failed_ids(report) == {"tier"}


def test_a_dispute_in_the_recorded_history_counts(tmp_path: Path) -> None:
    dispute = Dispute(
        dispute_id="d-1", status=DisputeStatus.ADMITTED, at=datetime.now(UTC) - timedelta(days=1)
    )
    run = backtested(tmp_path / "run", TierHistory(disputes=(dispute,)))
    assert run.certificate["verification_tier"] == "UNVERIFIED"
    report = check(run.sealed)
    assert report.consistent
    told = {line.id: line.actual for line in report.checks}
    assert told["history"] == (
        "recorded: attestations 0, disputes 1, runs 0, signals 0, telemetry 0; "
        "`closure` settles its runs, nothing the rest"
    )


def test_only_a_copy_shows_that_a_whole_bundle_was_exchanged(
    real_run: SmallRun, tmp_path: Path
) -> None:
    other = run_small_theatre(tmp_path, episodes=EVERY_OUTCOME[:2])
    kept = (real_run.sealed / "certificate.json").read_bytes()
    assert check(other.sealed).consistent
    assert failed_ids(check(other.sealed, certificate=kept)) == {"certificate-copy"}
