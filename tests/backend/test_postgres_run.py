"""A whole run over the PostgreSQL journal: what the files say, the database says too."""

import asyncio
import json
import time
from pathlib import Path
from typing import cast
from uuid import uuid4

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.repositories.run_journal import PostgresRunJournal
from backend.repositories.theatre_runs import change_run
from backend.repositories.theatres import insert_draft, store_receipt
from backend.repositories.transparency_log import PostgresLog, queue_commitment
from backend.services.transparency.closing import close_certified
from backend.services.transparency.keys import IssuerKeys, open_keys
from backend.settings import Settings
from tests.backend.databases import A_USER, USER_ID, Database
from tests.theatre.conftest import CONSTRUCT_ID, run_small_theatre, utc_now
from tests.theatre.runs import COIN, checked
from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject, canonical_bytes, canonical_line, parse_object
from theatre.engine.commitment import CommitmentProtocol, CommitmentReceipt
from theatre.engine.evidence_bundle import bundle_name
from theatre.engine.replay import ReplayEngine, RunContext, RunSettings
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.scoring import TheatreScoringProvider
from theatre.engine.theatre import Theatre
from theatre.files.datasets import DatasetRoots
from theatre.oracles.construct_registry import construct_from_argv, local_adapter_for
from theatre.oracles.retry import make_retrying_invoker
from theatre.scorers import load_scorers
from theatre.transparency.bundle_proofs import run_nonce
from theatre.transparency.log import LogWriter
from theatre.transparency.run_entries import theatre_commitment


def journal_of(
    engine: AsyncEngine, receipt: CommitmentReceipt, folder: Path, keys: IssuerKeys
) -> PostgresRunJournal:
    """The journal of a theatre, with what belongs to its commitment and to its end."""

    async def committed(connection: AsyncConnection, _: AuditEvent) -> None:
        await store_receipt(connection, receipt, COIN)

    async def resolved(connection: AsyncConnection, event: AuditEvent) -> None:
        if event.detail["outcome"] == "certified":
            path = folder / bundle_name(receipt.theatre_id) / "certificate.json"
            await close_certified(connection, keys, parse_object(path.read_bytes()))

    effects = {"committed": committed, "resolved": resolved}
    return PostgresRunJournal(engine, receipt.theatre_id, effects=effects)


async def logged(engine: AsyncEngine, theatre: Theatre, keys: IssuerKeys) -> bytes:
    """Log a commitment as the service does, and return the nonce that it gives."""
    async with engine.begin() as connection:
        await queue_commitment(connection, theatre_commitment(theatre, COIN))
    store = PostgresLog(engine)
    writer = LogWriter(store, keys.trust.log, keys.sign_log)
    await writer.open()
    await writer.append([one.entry for one in await store.take_queued()])
    return run_nonce(writer.checkpoint)


async def run_in_database(engine: AsyncEngine, folder: Path, template: JsonObject) -> str:
    """Commit and run a template whose construct and data are in `folder`; return the id."""
    scorers = load_scorers()
    theatre, created = Theatre.create(str(uuid4()), template, at=utc_now())
    receipt = CommitmentProtocol.commit(
        theatre.theatre_id,
        template,
        coin=COIN,
        scorer_pins=TheatreScoringProvider(template, scorers).scorer_pins,
        scorer_kinds=TheatreScoringProvider(template, scorers).scorer_kinds,
        committed_at=utc_now(),
    )
    async with engine.begin() as connection:
        await insert_draft(
            connection,
            theatre_id=theatre.theatre_id,
            user_id=USER_ID,
            template=template,
            construct_id=CONSTRUCT_ID,
            created_at=utc_now(),
        )
    keys = open_keys(Settings(home=folder / "home"), at=utc_now())
    journal = journal_of(engine, receipt, folder, keys)
    theatre, event = theatre.commit(receipt)
    await journal.note(created)
    await journal.note(event)
    async with engine.begin() as connection:
        await change_run(connection, theatre.theatre_id, is_certificate_run=True)
    program = folder / "construct" / "main.py"
    construct = construct_from_argv(
        CONSTRUCT_ID, json.dumps(["{python}", str(program)]), program.parent
    )
    adapter = local_adapter_for(construct, clock=utc_now, monotonic=time.monotonic)
    try:
        around = RunContext(
            coin=COIN,
            run_nonce=await logged(engine, theatre, keys),
            adapters={CONSTRUCT_ID: adapter},
            invoke=make_retrying_invoker(asyncio.sleep),
            datasets=DatasetRoots([folder]),
            scorers=scorers,
            registry=SchemaRegistry(),
            clock=utc_now,
            sleep=asyncio.sleep,
        )
        settings = RunSettings(output_dir=folder, drafts_dir=folder.parent / "drafts", batch_size=4)
        await ReplayEngine(theatre, journal, around, settings).run()
    finally:
        await adapter.aclose()
    return theatre.theatre_id


def test_a_run_over_postgresql_gives_the_results_of_a_run_over_files(
    database: Database, tmp_path: Path
) -> None:
    in_files = run_small_theatre(tmp_path)
    database.add("users", A_USER)

    async def play() -> str:
        engine = database.engine()
        try:
            return await run_in_database(engine, tmp_path, in_files.theatre.template)
        finally:
            await engine.dispose()

    theatre_id = asyncio.run(play())
    bundle = tmp_path / bundle_name(theatre_id)
    certificate = parse_object((bundle / "certificate.json").read_bytes())
    assert checked(bundle).consistent
    assert certificate["results_hash"] == in_files.certificate["results_hash"]
    assert certificate["commitment_hash"] == in_files.certificate["commitment_hash"]

    (row,) = database.rows("""
        SELECT t.state, t.outcome, t.progress, t.total_episodes, t.receipt,
            c.document, c.id::text AS certificate_id, c.results_hash, c.verification_tier
        FROM theatres t JOIN theatre_certificates c ON c.id = t.certificate_id
    """)
    receipt = parse_object((bundle / "commitment_receipt.json").read_bytes())
    assert row == {
        "state": "RESOLVED",
        "outcome": "certified",
        "progress": 10,
        "total_episodes": 10,
        "receipt": canonical_bytes(receipt),
        "document": canonical_bytes(certificate),
        "certificate_id": certificate["certificate_id"],
        "results_hash": certificate["results_hash"],
        "verification_tier": certificate["verification_tier"],
    }
    trail = (bundle / "audit_trail.jsonl").read_bytes()
    stored = database.rows("SELECT entry, to_state FROM theatre_audit_events ORDER BY seq")
    assert b"".join(cast("bytes", entry["entry"]) for entry in stored[:-1]) == trail
    assert stored[-1]["to_state"] == "RESOLVED"
    assert [entry["entry"] for entry in stored] == [
        canonical_line(parse_object(entry["entry"])) for entry in stored
    ]
    latencies = database.rows(
        "SELECT count(latency_ms) AS known, count(*) AS episodes FROM theatre_episode_scores"
    )
    assert latencies == [{"known": 10, "episodes": 10}]
