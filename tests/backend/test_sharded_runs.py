"""Runs in shards: the same results as in one piece, whatever becomes of the workers on the way."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from backend.database.roles import OWNER
from backend.main import create_app
from backend.services.run_attempts import MAX_LOST_WORKERS
from backend.services.shard_places import divide_evenly
from tests.backend.databases import Database
from tests.backend.serving import served, settings_for
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_lost_workers import (
    NOTE_RECORDED,
    Company,
    a_company,
    assert_nothing_called_again,
    assert_whole,
    gated,
)
from tests.backend.test_theatre_bridge import bundle_of, committed
from tests.backend.worker_pool import LEASE_SECONDS, is_dead, worker_pool
from tests.theatre.conftest import TEMPLATE, episode
from tests.theatre.echelon_process import until
from theatre.engine.canonical_json import JsonObject, parse_object

SOAK = os.environ.get("ECHELON_SOAK") == "1"
EPISODES = 24_000 if SOAK else 96
SIZE = EPISODES // 8
KILLED = 4_800 if SOAK else 32
COMMITTED_CALLS = 4
IN_ONE_PIECE = 1_000_000
LAST = 17
"""Where the seventh of thirty episodes fails, if they fail from the eleventh on: more than 6."""
POLICY: Mapping[str, Any] = {
    "on_threshold": "continue",
    "timeout_seconds": 60,
    "retry_policy": {"max_retries": 0, "backoff_seconds": 0},
    "sanitise_input": False,
    "max_concurrency": COMMITTED_CALLS,
}
# What it counts over all episodes is put among the hashed results.
COMPUTES: Mapping[str, Any] = {
    "step_id": "filled",
    "type": "deterministic_computation",
    "input_spec": {
        "computation": "provenance_chain",
        "params": {"required": ["value"]},
        "in_aggregate": True,
    },
}
SHARDS = "SELECT number, state FROM run_shards ORDER BY theatre_id, number"
LONG_LEASE = 60.0
"""Where nobody is to take anything over, however busy the machine is."""
# Whatever is claimed, passed on or rescued: the shares of a run never exceed what was committed.
GUARD_SHARES = f"""
    CREATE FUNCTION guard_shares() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (SELECT FROM run_shards GROUP BY theatre_id
                   HAVING sum(share) > {COMMITTED_CALLS}) THEN
            RAISE EXCEPTION 'expected shares within max_concurrency'
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER guard_shares AFTER INSERT OR UPDATE ON run_shards
        FOR EACH STATEMENT EXECUTE FUNCTION guard_shares()
"""


def staged(
    folder: Path,
    episodes: Sequence[JsonObject],
    *,
    seconds: float = 0,
    computes: bool = False,
    **policy: object,
) -> SumsStage:
    changes: dict[str, Any] = {"execution_policy": {**POLICY, **policy}}
    if computes:
        call, *rest = cast("list[JsonObject]", TEMPLATE["resolution_programme"])
        changes["resolution_programme"] = [call, COMPUTES, *rest]
    return sums_stage(folder, episodes, template_changes=changes, seconds=seconds)


@contextlib.contextmanager
def sharded(
    database: Database,
    tmp_path: Path,
    stage: SumsStage,
    *,
    size: int,
    lease_seconds: float = LONG_LEASE,
) -> Iterator[Company]:
    variables = {
        "ECHELON_SHARD_EPISODES": str(size),
        "ECHELON_LEASE_SECONDS": str(lease_seconds),
    }
    with database.connected(OWNER) as connection:
        connection.execute(GUARD_SHARES.encode())
    with a_company(database, tmp_path, stage, **variables) as company:
        yield company


def eventually(look: Callable[[], object], what: str) -> None:
    """Wait for what takes its time: a look at the database costs more than a call."""
    until(look, what, pause=0.05)


def await_ended(company: Company, theatres: int) -> None:
    query = "SELECT FROM theatres WHERE run_status IN ('succeeded', 'failed')"
    eventually(lambda: len(company.database.rows(query)) == theatres, f"the end of {theatres} runs")


def await_recorded(company: Company, results: int) -> None:
    query = "SELECT count(*) FROM theatre_episode_scores HAVING count(*) >= %s"
    eventually(lambda: company.database.rows(query, results), f"{results} results")


def done_shards(company: Company) -> int:
    rows = company.database.rows("SELECT FROM run_shards WHERE state = 'done'")
    return len(rows)


def spans(company: Company) -> list[tuple[int, int]]:
    rows = company.database.rows("SELECT first_seq, last_seq FROM run_shards ORDER BY number")
    return [(row["first_seq"], row["last_seq"]) for row in rows]


def run_in_one_piece(company: Company, *, total: int) -> str:
    """Run the theatre on a worker for which no run is large; return its path."""
    variables = {**company.stage.variables, "ECHELON_SHARD_EPISODES": str(IN_ONE_PIECE)}
    with worker_pool(company.database, company.home, **variables) as pool:
        pool.start()
        path = run_to_its_end(company, total=total)
    assert company.database.rows(SHARDS) == []
    return path


def run_to_its_end(company: Company, *, total: int, before: int = 0) -> str:
    """Run a theatre that records `total` episodes, with `before` in earlier ones; return its path.

    With patience for each of ten parts.
    """
    (path,) = company.ask_for_runs(1)
    for part in range(1, 11):
        await_recorded(company, before + total * part // 10)
    await_ended(company, 1 + (before > 0))
    return path


def computed(company: Company, path: str) -> Any:  # noqa: ANN401 - JSON
    aggregate = (bundle_of(company.home, path) / "scores" / "aggregate.json").read_bytes()
    return parse_object(aggregate)["computed"]


def counts(company: Company, path: str) -> Any:  # noqa: ANN401 - JSON
    certificate = company.ada.get(f"{path}/certificate").document["certificate_id"]
    document = company.ada.get(f"/api/v1/certificates/{certificate}/document").document
    return document["episode_counts"]


def troubled(count: int) -> list[JsonObject]:
    """Episodes that are answered rightly and wrongly, refused, and failed, all over the dataset."""
    kinds = {3: "wrong", 7: "refuse", 11: "err", 13: "garbage"}
    asked = [next((do for k, do in kinds.items() if n % k == 0), None) for n in range(count + 1)]
    return [episode(number, [number, 1], asked[number]) for number in range(1, count + 1)]


def test_a_run_in_shards_comes_to_what_it_comes_to_in_one_piece(
    database: Database, tmp_path: Path
) -> None:
    stage = staged(tmp_path / "stage", troubled(EPISODES), computes=True, deterministic_sample=9)
    with sharded(database, tmp_path, stage, size=SIZE) as company:
        whole = run_in_one_piece(company, total=EPISODES)
        company.pool.start()
        company.pool.start()
        path = run_to_its_end(company, total=EPISODES, before=EPISODES)
        assert spans(company) == [(n * SIZE + 1, (n + 1) * SIZE) for n in range(8)]
        assert database.rows(SHARDS) == [
            {"number": number, "state": "done"} for number in range(1, 9)
        ]
        assert_whole(company, [whole, path], episodes=EPISODES)
        assert counts(company, path) == counts(company, whole)
        assert computed(company, path) == computed(company, whole)
        assert computed(company, path)["filled"]["records"] == EPISODES


def test_killed_workers_lose_a_shard_to_others_that_call_for_nothing_recorded(
    database: Database, tmp_path: Path
) -> None:
    stage = staged(tmp_path / "stage", sums(KILLED), seconds=0.02)
    with sharded(
        database, tmp_path, stage, size=KILLED // 8, lease_seconds=LEASE_SECONDS
    ) as company:
        with database.connected(OWNER) as connection:
            connection.execute(NOTE_RECORDED.encode())
        workers = [company.pool.start()]
        undisturbed = run_to_its_end(company, total=KILLED)
        workers.append(company.pool.start())
        (path,) = company.ask_for_runs(1)
        for number in (1, 2):
            await_recorded(company, KILLED + number * KILLED // 4)
            company.pool.kill(workers.pop(0))
            workers.append(company.pool.start())
        await_ended(company, 2)
        assert_whole(company, [undisturbed, path], episodes=KILLED)
        assert_nothing_called_again(company)
        assert {row["state"] for row in database.rows(SHARDS)} == {"done"}


def test_a_worker_that_was_only_paused_records_nothing_in_its_shard(
    database: Database, tmp_path: Path
) -> None:
    stage = staged(
        tmp_path / "stage", [*sums(2), gated(3), gated(4, "second gate")], max_concurrency=2
    )
    with sharded(database, tmp_path, stage, size=2, lease_seconds=LEASE_SECONDS) as company:
        with database.connected(OWNER) as connection:
            connection.execute(NOTE_RECORDED.encode())
        paused = company.pool.start()
        (path,) = company.ask_for_runs(1)
        eventually(lambda: company.calls_of(3) == 1, "the call of the second shard")
        eventually(lambda: done_shards(company) == 1, "the end of the first shard")
        os.kill(paused, signal.SIGSTOP)
        company.pool.start()
        eventually(lambda: company.calls_of(3) > 1, "another worker to take over")
        company.let_through_until_recorded(3)
        os.kill(paused, signal.SIGCONT)
        company.await_told("run is another's")
        eventually(lambda: company.calls_of(4), "the last call")
        company.let_through_until_recorded(4, gate="second gate")
        await_ended(company, 1)
        assert_whole(company, [path], episodes=4)
        assert_nothing_called_again(company)


def test_a_cancelled_run_begins_no_further_shard(database: Database, tmp_path: Path) -> None:
    episodes = [gated(1), sums(2)[1], gated(3, "second gate"), *sums(8)[3:]]
    stage = staged(tmp_path / "stage", episodes, max_concurrency=2)
    with sharded(database, tmp_path, stage, size=2) as company:
        company.pool.start()
        (path,) = company.ask_for_runs(1)
        eventually(lambda: company.calls_of(1) and company.calls_of(3), "two shards to be called")
        assert company.ada.post(f"{path}/cancel", b"").status == 202
        eventually(lambda: company.pool.log().count("run is to stop") == 2, "both to hear of it")
        company.let_through_until_recorded(1)
        company.let_through_until_recorded(2, gate="second gate")
        eventually(lambda: company.ada.get(path).document["state"] == "RESOLVED", "the end")
        theatre = company.ada.get(path).document
        assert (theatre["outcome"], theatre["outcome_reason"], theatre["progress"]) == (
            "void",
            "cancelled",
            2,
        )
        assert {number for _, number, _ in stage.calls} == {1, 3}
        assert {row["state"] for row in database.rows(SHARDS)} == {"waiting"}


def test_the_committed_failures_end_a_run_at_the_same_episode_and_spare_later_shards(
    database: Database, tmp_path: Path
) -> None:
    # The seventh failure of sixty ends the run, in the first shard. The second is held meanwhile.
    episodes = [episode(n, [n, 1], "err") for n in range(1, 11)]
    episodes += [gated(11), *sums(60)[11:]]
    stage = staged(
        tmp_path / "stage",
        episodes,
        on_threshold="settle",
        failure_threshold=0.1,
        max_concurrency=2,
    )
    with sharded(database, tmp_path, stage, size=10) as company:
        company.pool.start()
        (path,) = company.ask_for_runs(1)
        # The second is spared, too, where its worker came late: then nobody stands at the gate.
        eventually(lambda: done_shards(company) >= 5, "every shard but the second to end")

        def has_ended() -> bool:
            stage.let_through("gate")
            ended = "SELECT 1 FROM theatres WHERE run_status IN ('succeeded', 'failed')"
            return bool(database.rows(ended))

        until(has_ended, "the end of the run")
        theatre = company.ada.get(path).document
        # With nothing scored there is no certificate; what was called says where it ended.
        assert (theatre["state"], theatre["outcome"]) == ("RESOLVED", "no_certificate")
        assert max(number for _, number, _ in stage.calls) <= 20


def test_failures_in_any_shard_discard_what_came_behind_them(
    database: Database, tmp_path: Path
) -> None:
    failing = range(11, 21)
    episodes = [episode(n, [n, 1], "err" if n in failing else None) for n in range(1, 31)]
    stage = staged(
        tmp_path / "stage", episodes, on_threshold="settle", failure_threshold=0.2, seconds=0.002
    )
    with sharded(database, tmp_path, stage, size=5) as company:
        whole = run_in_one_piece(company, total=LAST)
        company.pool.start()
        path = run_to_its_end(company, total=LAST, before=LAST)
        assert counts(company, path)["not_run"] == 30 - LAST
        assert counts(company, path) == counts(company, whole)
        hashes = database.rows("SELECT DISTINCT results_hash FROM theatre_certificates")
        assert len(hashes) == 1


def test_a_worker_that_is_stopped_hands_its_shards_over(database: Database, tmp_path: Path) -> None:
    stage = staged(tmp_path / "stage", [gated(1), *sums(6)[1:]], max_concurrency=2)
    with sharded(database, tmp_path, stage, size=3) as company:
        stopped = company.pool.start()
        (path,) = company.ask_for_runs(1)
        eventually(lambda: company.calls_of(1) == 1, "the first call")
        eventually(lambda: done_shards(company) == 1, "the end of the second shard")
        company.pool.stop(stopped)
        company.await_told("run is to stop")
        company.let_through_until_recorded(4)
        company.await_death_of(stopped)
        (first, second) = database.rows(SHARDS)
        assert [first["state"], second["state"]] == ["queued", "done"]
        assert database.rows("SELECT DISTINCT lost_workers FROM run_shards") == [
            {"lost_workers": 0}
        ]
        company.pool.start()
        await_ended(company, 1)
        assert_whole(company, [path], episodes=6)
        assert [company.calls_of(number) for number in range(1, 7)] == [1] * 6


def test_a_shard_that_kills_its_workers_ends_its_run_as_failed(
    database: Database, tmp_path: Path
) -> None:
    stage = staged(tmp_path / "stage", sums(4, kill=4), max_concurrency=2)
    with sharded(database, tmp_path, stage, size=2, lease_seconds=LEASE_SECONDS) as company:
        (path,) = company.ask_for_runs(1)
        ended = "SELECT FROM theatres WHERE run_status = 'failed'"
        while not database.rows(ended):
            victim = company.pool.fork()

            def is_over(pid: int = victim) -> bool:
                return is_dead(pid) or bool(database.rows(ended))

            eventually(is_over, "a worker to die, or the run to end")
        theatre = company.ada.get(path).document
        assert (theatre["state"], theatre["outcome"], theatre["outcome_reason"]) == (
            "RESOLVED",
            "failed",
            "workers-lost",
        )
        assert f"got {MAX_LOST_WORKERS} lost in a row" in theatre["error"]
        assert {row["state"] for row in database.rows(SHARDS)} == {"done"}


@pytest.mark.parametrize(
    ("calls", "parts", "expected"),
    [(4, 4, [1, 1, 1, 1]), (7, 3, [3, 2, 2]), (16, 1, [16]), (2, 2, [1, 1]), (3, 0, [])],
)
def test_calls_are_shared_out_to_the_last_one(calls: int, parts: int, expected: list[int]) -> None:
    assert divide_evenly(calls, parts) == expected


def test_a_run_of_one_shard_or_of_one_call_at_a_time_stays_one_job(
    database: Database, tmp_path: Path
) -> None:
    stage = staged(tmp_path / "stage", sums(6))
    sequential = {**stage.template, "execution_policy": {**POLICY, "max_concurrency": 1}}
    home = tmp_path / "home"
    settings = settings_for(
        database, home, **stage.settings, lease_seconds=LEASE_SECONDS, shard_episodes=6
    )
    with served(create_app(settings)) as client:
        ada = client.registered("ada")
        for template in (stage.template, sequential):
            path = committed(ada, template)
            assert ada.post(f"{path}/run", b"", headers={"Prefer": "wait=60"}).status == 200
    smaller = settings.model_copy(update={"shard_episodes": 5})
    with served(create_app(smaller)) as client:
        ada = client.bearing(ada.headers["Authorization"].removeprefix("Bearer "))
        path = committed(ada, sequential)
        assert ada.post(f"{path}/run", b"", headers={"Prefer": "wait=60"}).status == 200
    assert database.rows(SHARDS) == []
