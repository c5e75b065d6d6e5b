"""A run that was killed, interrupted or sabotaged goes on where it stopped, and never twice."""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from tests.theatre.construct_door import drain_reports
from tests.theatre.echelon_process import (
    REPOSITORY,
    Answer,
    echelon,
    ended,
    processes_that_mention,
    started,
    until,
)
from tests.theatre.runs import checked, drawn
from tests.theatre.witnessed_theatre import EPISODES, WitnessedTheatre, witnessed_theatre
from theatre.engine.audit_chain import verify_chain
from theatre.engine.certificate import certificate_id
from theatre.engine.clock import format_rfc3339
from theatre.engine.models import EpisodeResult
from theatre.engine.replay.recording import batch_events
from theatre.files.run_journal import EPISODES as JOURNAL
from theatre.files.run_journal import TRAIL
from theatre.files.theatre_store import FileTheatreStore

SOAK = bool(os.environ.get("ECHELON_SOAK"))
KILLS = range(60 if SOAK else 6)
LATEST_KILL = 72
BATCH = ("--batch-episodes", "10")


@dataclass(frozen=True, slots=True, kw_only=True)
class Undisturbed:
    """What a run that nobody disturbed comes to."""

    theatre: WitnessedTheatre
    results_hash: str
    per_episode: bytes
    commitment_hash: str
    trail: list[bytes]
    recorded: list[bytes]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    theatre = witnessed_theatre(tmp_path_factory.mktemp("undisturbed") / "theatre")
    # A start of its own, with another hash seed than the runs that are held against it.
    answer = echelon("theatre", "run", theatre.template, *BATCH, "--json", home=theatre.home)
    assert answer.code == 0, answer.stderr
    assert len(theatre.calls()) == EPISODES
    trail = (theatre.store_folder / TRAIL).read_bytes()
    return Undisturbed(
        theatre=theatre,
        results_hash=answer.document["results_hash"],
        per_episode=(theatre.bundle / "scores" / "per_episode.jsonl").read_bytes(),
        commitment_hash=answer.document["commitment_hash"],
        trail=trail.splitlines(keepends=True),
        recorded=theatre.recorded(),
    )


@pytest.fixture
def theatre(tmp_path: Path) -> WitnessedTheatre:
    return witnessed_theatre(tmp_path / "theatre")


def kill_after(theatre: WitnessedTheatre, episodes: int, target: str | Path) -> None:
    """Start a run and kill -9 it as soon as so many episodes are recorded."""
    with started("theatre", "run", target, *BATCH, home=theatre.home) as run:
        until(
            lambda: len(theatre.recorded()) >= episodes or run.poll() is not None,
            f"{episodes} episodes",
        )
        run.kill()
        assert ended(run).code == -signal.SIGKILL, "the run was over before it could be killed"
    no_process_is_left(theatre)


def die_after(theatre: WitnessedTheatre, episodes: int, target: str | Path) -> None:
    """Run until so many episodes, a multiple of ten, are recorded, and die before the next batch.

    Cheaper than `kill_after`, and at no other moment.
    """
    died = theatre.run("run", target, *BATCH, die_before=(f"/{JOURNAL}", episodes // 10 + 1))
    assert died.code == -signal.SIGKILL, died.stderr
    assert len(theatre.recorded()) == episodes
    no_process_is_left(theatre)


def no_process_is_left(theatre: WitnessedTheatre) -> None:
    """A construct dies with its runner; the system needs a moment for it."""
    until(lambda: not processes_that_mention(theatre.folder), "the end of all processes")
    drain_reports()


def ids_of(records: list[bytes]) -> list[str]:
    return [
        json.loads(line)["invocation"]["calls"][0]["request"]["invocation_id"] for line in records
    ]


def is_certified_as(undisturbed: Undisturbed, theatre: WitnessedTheatre, answer: Answer) -> None:
    """One certificate, the same results, a chain that verifies, a bundle that passes."""
    assert answer.code == 0, answer.stderr
    report = answer.document
    assert (report["state"], report["outcome"]) == ("RESOLVED", "certified")
    assert report["results_hash"] == undisturbed.results_hash
    assert report["commitment_hash"] == undisturbed.commitment_hash
    per_episode = theatre.bundle / "scores" / "per_episode.jsonl"
    assert per_episode.read_bytes() == undisturbed.per_episode
    assert len(theatre.recorded()) == EPISODES
    assert list(theatre.home.rglob("certificate.json")) == [theatre.bundle / "certificate.json"]
    assert report["certificate_id"] == certificate_id(
        theatre.theatre_id, undisturbed.commitment_hash
    )
    assert not list(theatre.home.rglob("*.partial"))
    the_chain_is_whole(theatre)
    report_of_check = checked(theatre.bundle)
    assert [check.as_document() for check in report_of_check.failed] == []
    assert report_of_check.consistent


def the_chain_is_whole(theatre: WitnessedTheatre) -> None:
    """Each step of the life once, each episode covered once, each failure told behind its batch."""
    entries = theatre.trail()
    verify_chain(entries, theatre_id=theatre.theatre_id)
    events = [cast("str", entry["event_type"]) for entry in entries]
    assert Counter(event for event in events if not event.startswith("episode")) == {
        "created": 1,
        "committed": 1,
        "activated": 1,
        "settling": 1,
        "step_completed": 1,
        "sealed": 1,
        "resolved": 1,
    }
    covered: list[int] = []
    batch: list[int] = []
    for entry in entries:
        detail = cast("dict[str, list[list[int]]]", entry["detail"])
        if entry["event_type"] == "episodes_recorded":
            batch = [n for first, last in detail["seqs"] for n in range(first, last + 1)]
            covered += batch
        if entry["event_type"] == "episode_failed":
            assert cast("int", cast("object", detail["seq"])) in batch
    assert covered == list(range(1, EPISODES + 1))
    failures = [event for event in events if event == "episode_failed"]
    assert len(failures) == EPISODES // 2


@pytest.mark.parametrize("seed", KILLS)
def test_a_killed_run_goes_on_where_it_stopped(
    theatre: WitnessedTheatre, undisturbed: Undisturbed, seed: int
) -> None:
    kill_after(theatre, drawn(seed, LATEST_KILL), theatre.template)
    recorded, calls = theatre.recorded(), theatre.calls()
    assert set(ids_of(recorded)) <= set(calls)

    again = theatre.theatre_id if seed % 2 else theatre.template
    answer = theatre.run("run", again, *BATCH, "--json")

    assert theatre.recorded()[: len(recorded)] == recorded
    called_again = theatre.calls()[len(calls) :]
    assert set(called_again).isdisjoint(ids_of(recorded))
    assert len(called_again) == EPISODES - len(recorded)
    assert {*ids_of(recorded), *called_again} == {
        theatre.draws.invocation_id(theatre.theatre_id, seq=seq) for seq in range(1, EPISODES + 1)
    }
    is_certified_as(undisturbed, theatre, answer)


def test_a_run_that_is_killed_again_and_again_comes_to_the_same_end(
    theatre: WitnessedTheatre, undisturbed: Undisturbed
) -> None:
    target: str | Path = theatre.template
    kept: list[bytes] = []
    for threshold in (1, 25, 26, 55):
        kill_after(theatre, threshold, target)
        assert theatre.recorded()[: len(kept)] == kept
        kept, target = theatre.recorded(), theatre.theatre_id
    answer = theatre.run("run", theatre.theatre_id, *BATCH, "--json")
    assert theatre.recorded()[: len(kept)] == kept
    is_certified_as(undisturbed, theatre, answer)


def test_the_template_alone_finds_the_unfinished_theatre_unless_a_new_one_is_asked_for(
    theatre: WitnessedTheatre,
) -> None:
    kill_after(theatre, 10, theatre.template)
    first = theatre.theatre_id
    other = theatre.run("run", theatre.template, "--new", "--json")
    assert (other.code, other.document["theatre_id"] == first) == (0, False)
    same = theatre.run("run", theatre.template, "--json")
    assert (same.code, same.document["theatre_id"]) == (0, first)
    assert f"going on with the unfinished theatre {first}" in same.stderr
    third = theatre.run("run", theatre.template, "--json")
    ids = {answer.document["theatre_id"] for answer in (other, same, third)}
    assert (third.code, len(ids)) == (0, 3)
    assert same.document["results_hash"] == third.document["results_hash"]


# Crash points that a poll from outside cannot hit: the process kills itself, right before or
# right after it makes one event durable.
KILLED_AT_EVENT = """
import asyncio, os, signal, sys
from pathlib import Path
from theatre.api.workspace import utc_now
from theatre.api.workspace import Workspace
from theatre.engine.replay import ReplayEngine, RunSettings, RunContext
from theatre.engine.replay.recording import batch_events
from theatre.engine.schema_registry import SchemaRegistry
from theatre.files.run_journal import FileRunJournal
from theatre.oracles.construct_registry import local_adapter_for
from theatre.oracles.retry import make_retrying_invoker
from theatre.files.theatre_store import FileTheatreStore
from theatre.scorers import load_scorers
import time

theatre_id, when, event_type = sys.argv[1:]

class Journal(FileRunJournal):
    async def note(self, event):
        if (when, event.event_type) == ("before", event_type):
            os.kill(os.getpid(), signal.SIGKILL)
        entry = await super().note(event)
        if (when, event.event_type) == ("after", event_type):
            os.kill(os.getpid(), signal.SIGKILL)
        return entry

async def main():
    workspace = Workspace.from_environment()
    with workspace.store.hold(theatre_id) as held:
        construct = workspace.find_construct("cartograph", held.template_folder)
        adapter = local_adapter_for(construct, clock=utc_now, monotonic=time.monotonic)
        around = RunContext(
            coin=held.coin,
            adapters={"cartograph": adapter},
            invoke=make_retrying_invoker(asyncio.sleep),
            datasets=workspace.datasets_for(held.template_folder),
            scorers=load_scorers(),
            registry=SchemaRegistry(),
            clock=utc_now,
            sleep=asyncio.sleep,
        )
        journal = Journal(held.folder, theatre_id)
        drafts = workspace.home / "drafts"
        settings = RunSettings(output_dir=held.folder, drafts_dir=drafts, batch_size=10)
        await ReplayEngine(held.theatre, journal, around, settings).run()

asyncio.run(main())
"""


def kill_at_event(theatre: WitnessedTheatre, when: str, event_type: str) -> None:
    """Commit the theatre and run it in a process that dies at one event."""
    assert theatre.run("commit", theatre.template).code == 0
    script = theatre.folder / "killed_at_event.py"
    script.write_text(KILLED_AT_EVENT, encoding="utf-8")
    arguments = (script, theatre.theatre_id, when, event_type)
    with started(*arguments, home=theatre.home, command=[sys.executable]) as run:
        answer = ended(run)
    assert answer.code == -signal.SIGKILL, answer.stderr
    no_process_is_left(theatre)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("when", "event_type", "state", "left"),
    [
        ("after", "activated", "ACTIVE", "nothing"),
        ("before", "settling", "ACTIVE", "nothing"),
        ("after", "settling", "SETTLING", "nothing"),
        ("before", "step_completed", "SETTLING", "a draft"),
        ("after", "step_completed", "SETTLING", "a draft"),
        ("before", "sealed", "SETTLING", "a sealed bundle"),
        ("after", "sealed", "SETTLING", "a sealed bundle"),
    ],
)
def test_a_process_that_dies_between_two_steps_is_repaired_by_the_next(
    theatre: WitnessedTheatre,
    undisturbed: Undisturbed,
    when: str,
    event_type: str,
    state: str,
    left: str,
) -> None:
    kill_at_event(theatre, when, event_type)
    assert theatre.state() == state
    drafts = [path for path in theatre.store_folder.iterdir() if path.name.endswith(".partial")]
    assert (bool(drafts), theatre.bundle.exists()) == (left == "a draft", left == "a sealed bundle")
    sealed, calls = contents(theatre.bundle), theatre.calls()

    answer = theatre.run("run", theatre.theatre_id, *BATCH, "--json")

    is_certified_as(undisturbed, theatre, answer)
    if sealed:
        assert contents(theatre.bundle) == sealed
    assert theatre.calls() == calls if calls else len(theatre.calls()) == EPISODES
    assert len(set(theatre.calls())) == EPISODES


def test_a_sealed_bundle_counts_whatever_became_of_the_data(
    theatre: WitnessedTheatre, undisturbed: Undisturbed
) -> None:
    kill_at_event(theatre, "before", "sealed")
    sealed = contents(theatre.bundle)
    theatre.dataset.unlink()
    answer = theatre.run("run", theatre.theatre_id, "--json")
    is_certified_as(undisturbed, theatre, answer)
    assert contents(theatre.bundle) == sealed


def test_a_sealed_bundle_that_does_not_continue_the_chain_is_refused(
    undisturbed: Undisturbed, tmp_path: Path
) -> None:
    """A bundle that is valid in itself, of the very theatre, from another run of it."""
    theatre = WitnessedTheatre(tmp_path / "theatre")
    shutil.copytree(undisturbed.theatre.home, theatre.home)
    shutil.move(theatre.bundle, theatre.folder / "another")
    (theatre.store_folder / TRAIL).write_bytes(b"".join(undisturbed.trail[:3]))
    (theatre.store_folder / JOURNAL).unlink()
    die_after(theatre, 40, theatre.theatre_id)
    shutil.move(theatre.folder / "another", theatre.bundle)
    answer = theatre.run("run", theatre.theatre_id, "--json")
    assert (answer.code, answer.document["outcome_reason"]) == (1, "journal-corrupt")
    assert (answer.document["bundle_path"], theatre.state()) == (None, "RESOLVED")
    assert not list(theatre.store_folder.rglob("certificate.json"))
    assert (theatre.home / "drafts" / theatre.theatre_id / "certificate.json").is_file()


def batch_with_failures(trail: list[bytes]) -> int:
    """The index of a batch's entry with at least three failures behind it, not the first."""
    events = [json.loads(line)["event_type"] for line in trail]
    wanted = ["episodes_recorded", *["episode_failed"] * 3]
    return next(n for n in range(10, len(events)) if events[n : n + 4] == wanted)


@pytest.mark.parametrize("kept", ["no event", "the batch", "half a failure", "two failures"])
def test_events_that_a_crash_kept_back_are_made_good(undisturbed: Undisturbed, kept: str) -> None:
    """Records are durable before their events; the chain may have been cut at any byte between.

    Records without any event stand under no digest: they are cut, and their episodes called again.
    """
    theatre = undisturbed.theatre
    shutil.rmtree(theatre.bundle)
    batch = batch_with_failures(undisturbed.trail)
    ((first, last),) = json.loads(undisturbed.trail[batch])["detail"]["seqs"]
    cut = {
        "no event": undisturbed.trail[:batch],
        "the batch": undisturbed.trail[: batch + 1],
        "half a failure": [*undisturbed.trail[: batch + 2], undisturbed.trail[batch + 2][:40]],
        "two failures": undisturbed.trail[: batch + 3],
    }
    (theatre.store_folder / TRAIL).write_bytes(b"".join(cut[kept]))
    (theatre.store_folder / JOURNAL).write_bytes(b"".join(undisturbed.recorded[:last]))
    theatre.door.calls.clear()

    answer = theatre.run("run", theatre.theatre_id, *BATCH, "--json")

    is_certified_as(undisturbed, theatre, answer)
    assert len(theatre.calls()) == EPISODES - (first - 1 if kept == "no event" else last)
    cut_files = {"no event": [JOURNAL], "half a failure": [TRAIL]}.get(kept, [])
    noted = [f"note: removed the unfinished end of {name}" for name in cut_files]
    assert [line for line in answer.stderr.splitlines() if line.startswith("note:")] == noted


def test_episodes_missing_before_recorded_ones_are_called_and_those_are_not(
    undisturbed: Undisturbed,
) -> None:
    """A batch that the disk refused may be followed by one that it took."""
    theatre = undisturbed.theatre
    shutil.rmtree(theatre.bundle)
    theatre.door.calls.clear()
    (theatre.store_folder / TRAIL).write_bytes(b"".join(undisturbed.trail[:3]))
    (theatre.store_folder / JOURNAL).unlink()
    kept = undisturbed.recorded[15:40]
    results = [EpisodeResult.from_line(line) for line in kept]
    with FileTheatreStore(theatre.home).hold(theatre.theatre_id) as held:
        events = batch_events(results, at=format_rfc3339(datetime.now(UTC)))
        asyncio.run(held.journal.append(results, events))

    answer = theatre.run("run", theatre.theatre_id, *BATCH, "--json")

    assert theatre.recorded()[: len(kept)] == kept
    assert theatre.calls() == ids_of(undisturbed.recorded[:15] + undisturbed.recorded[40:])
    assert (answer.code, answer.document["results_hash"]) == (0, undisturbed.results_hash)
    check = checked(theatre.bundle)
    assert check.consistent


def test_records_that_no_batch_names_are_cut_reported_and_called_again_under_their_ids(
    theatre: WitnessedTheatre, undisturbed: Undisturbed
) -> None:
    die_after(theatre, 40, theatre.template)
    journal = theatre.store_folder / JOURNAL
    whole = theatre.recorded()
    trail = theatre.store_folder / TRAIL
    entries = trail.read_bytes().splitlines(keepends=True)
    covering = [n for n, line in enumerate(entries) if b"episodes_recorded" in line]
    # Ten episodes, or fewer on a machine on which they take more than a second.
    ((_, last),) = json.loads(entries[covering[0]])["detail"]["seqs"]
    trail.write_bytes(b"".join(entries[: covering[1]]))
    journal.write_bytes(b"".join(whole[: last + 9]) + whole[last + 9][:-1])
    theatre.door.calls.clear()

    answer = theatre.run("run", theatre.theatre_id, *BATCH, "--json")

    assert f"note: removed the unfinished end of {JOURNAL}" in answer.stderr
    assert theatre.calls()[:10] == ids_of(whole[last : last + 10])
    is_certified_as(undisturbed, theatre, answer)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_every_answer_and_says_how_to_go_on(
    theatre: WitnessedTheatre, undisturbed: Undisturbed, number: signal.Signals
) -> None:
    with started("theatre", "run", theatre.template, *BATCH, "--json", home=theatre.home) as run:
        until(lambda: len(theatre.recorded()) >= 20, "twenty episodes")
        run.send_signal(number)
        answer = ended(run)
    recorded = theatre.recorded()
    assert answer.code == 8
    assert answer.document == {
        "error": {
            "code": "interrupted",
            "message": f"stopped with {len(recorded)} episodes recorded; go on with: "
            f"echelon theatre run {theatre.theatre_id}",
        }
    }
    no_process_is_left(theatre)
    calls = theatre.calls()
    # Answered and recorded, but for the one call that the signal may have cut off.
    assert calls[: len(recorded)] == ids_of(recorded)
    assert len(calls) - len(recorded) in {0, 1}
    assert "Traceback" not in answer.stderr

    resumed = theatre.run("run", theatre.theatre_id, *BATCH, "--json")
    assert theatre.recorded()[: len(recorded)] == recorded
    assert len(theatre.calls()) == len(calls) + EPISODES - len(recorded)
    is_certified_as(undisturbed, theatre, resumed)


def test_an_interruption_after_the_end_changes_nothing(tmp_path: Path) -> None:
    """The construct will not go; the runner waits a moment for it, and is interrupted then."""
    theatre = witnessed_theatre(tmp_path / "theatre", at_end="import signal; signal.pause()")
    with started("theatre", "run", theatre.template, "--json", home=theatre.home) as run:
        until(lambda: list(theatre.home.glob("theatres/*/evidence_bundle_*")), "a bundle")
        until(lambda: theatre.state() == "RESOLVED", "the end of the theatre")
        run.send_signal(signal.SIGINT)
        answer = ended(run)
    assert (answer.code, answer.document["outcome"]) == (0, "certified")
    no_process_is_left(theatre)


@pytest.mark.parametrize("defect", ["missing", "changed"])
def test_a_run_without_the_committed_data_is_refused_and_can_go_on_once_they_are_back(
    theatre: WitnessedTheatre, undisturbed: Undisturbed, defect: str
) -> None:
    assert theatre.run("commit", theatre.template).code == 0
    committed = theatre.dataset.read_bytes()
    codes = {"missing": "dataset-invalid", "changed": "dataset-mismatch"}
    if defect == "missing":
        theatre.dataset.unlink()
    else:
        theatre.dataset.write_bytes(committed.replace(b'"hex"', b'"hax"', 1))
    for _ in range(2):
        refused = theatre.run("run", theatre.theatre_id, "--json")
        assert (refused.code, refused.document["error"]["code"]) == (5, codes[defect])
        assert theatre.state() == "COMMITTED"
    assert theatre.calls() == []
    theatre.dataset.write_bytes(committed)
    is_certified_as(undisturbed, theatre, theatre.run("run", theatre.theatre_id, *BATCH, "--json"))


def test_data_that_are_gone_in_the_middle_stop_the_run_until_they_are_back(
    theatre: WitnessedTheatre, undisturbed: Undisturbed
) -> None:
    kill_after(theatre, 30, theatre.template)
    aside = theatre.dataset.rename(theatre.folder / "aside")
    refused = theatre.run("run", theatre.theatre_id, "--json")
    assert (refused.code, refused.document["error"]["code"]) == (5, "dataset-invalid")
    assert theatre.state() == "ACTIVE"
    aside.rename(theatre.dataset)
    is_certified_as(undisturbed, theatre, theatre.run("run", theatre.theatre_id, *BATCH, "--json"))


def ends_as_failed(theatre: WitnessedTheatre, answer: Answer) -> None:
    """RESOLVED, with the reason and no certificate, and not to be run again."""
    assert answer.code == 1
    document = answer.document
    assert (document["state"], document["outcome"], document["outcome_reason"]) == (
        "RESOLVED",
        "failed",
        "dataset-mismatch",
    )
    assert (document["certificate_id"], document["bundle_path"]) == (None, None)
    assert list(theatre.home.rglob("certificate.json")) == []
    assert not list(theatre.store_folder.glob("*bundle*"))
    entries = theatre.trail()
    verify_chain(entries, theatre_id=theatre.theatre_id)
    assert [entry["to_state"] for entry in entries if entry["to_state"]] == [
        "DRAFT",
        "COMMITTED",
        "ACTIVE",
        "SETTLING",
        "RESOLVED",
    ]
    again = theatre.run("run", theatre.theatre_id, "--json")
    assert (again.code, again.document["error"]["code"]) == (6, "invalid-transition")


@pytest.mark.parametrize("moment", ["while calling", "while settling"])
def test_data_that_changed_in_the_middle_end_the_theatre_as_failed(
    theatre: WitnessedTheatre, moment: str
) -> None:
    if moment == "while calling":
        kill_after(theatre, 30, theatre.template)
    else:
        kill_at_event(theatre, "after", "settling")
    calls = theatre.calls()
    committed = theatre.dataset.read_bytes()
    theatre.dataset.write_bytes(committed + b"\n")
    ends_as_failed(theatre, theatre.run("run", theatre.theatre_id, "--json"))
    assert theatre.calls() == calls


def test_data_that_somebody_writes_into_during_the_run_end_the_theatre_as_failed(
    tmp_path: Path,
) -> None:
    theatre = witnessed_theatre(tmp_path / "theatre")
    written = theatre.dataset.read_bytes()[1:]
    theatre.door.at_each_call = lambda: theatre.dataset.write_bytes(b" " + written)
    ends_as_failed(theatre, theatre.run("run", theatre.template, "--json"))


def test_the_shipped_cartograph_resumes_to_the_results_of_an_undisturbed_run(
    tmp_path: Path,
) -> None:
    """The same once more without the witness, from the checkout's own template."""
    template = REPOSITORY / "fixtures" / "templates" / "product_cartograph_v1.json"
    theatre = WitnessedTheatre(tmp_path / "theatre")
    whole = echelon("theatre", "run", template, "--json", home=tmp_path / "other")
    kill_after(theatre, 100, template)
    resumed = theatre.run("run", template, *BATCH, "--json")
    check = echelon("check", theatre.bundle, "--json", home=theatre.home)
    assert (whole.code, resumed.code, check.code) == (0, 0, 0)
    assert resumed.document["results_hash"] == whole.document["results_hash"]
    assert resumed.document["theatre_id"] == theatre.theatre_id
