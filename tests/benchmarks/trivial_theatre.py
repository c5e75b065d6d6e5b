"""A committed theatre whose episodes ask next to nothing, and a construct served beside it."""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid5

from tests.theatre.runs import COIN
from theatre.engine.canonical_json import JsonObject, canonical_line, sha256_hex
from theatre.engine.coin import Draws
from theatre.engine.commitment import CommitmentProtocol
from theatre.engine.oracle_contract import InvocationMetadata, OracleInvocationRequest
from theatre.engine.replay import ReplayEngine, RunContext, RunSettings
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.theatre import Theatre
from theatre.files.datasets import DatasetRoots
from theatre.files.theatre_store import FileTheatreStore
from theatre.oracles.http import HTTPOracleAdapter
from theatre.oracles.outbound_policy import OutboundPolicy
from theatre.oracles.retry import make_retrying_invoker
from theatre.oracles.sanitise import TextSanitiser
from theatre.scorers import load_scorers

CONSTRUCT = Path(__file__).with_name("trivial_construct.py")
VERSION = "c0ffee" * 10 + "beef"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """How a theatre commits to be run."""

    name: str
    concurrency: int
    sanitises: bool


def utc_now() -> datetime:
    """Return the time, as the command line gives it to the engine."""
    return datetime.now(UTC)


@contextlib.contextmanager
def construct(seconds: float = 0.0) -> Iterator[str]:
    """Serve the trivial construct from a process of its own; yield its URL.

    Each of its answers waits for so many seconds.
    """
    process = subprocess.Popen(
        [sys.executable, CONSTRUCT, str(seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/"
        process.terminate()


def template_of(dataset: bytes, mode: Mode) -> JsonObject:
    """Return a template with one criterion that the trivial construct meets."""
    return {
        "schema_version": "2.1.0",
        "theatre_id": "product_trivial_v1",
        "template_family": "PRODUCT",
        "execution_path": "replay",
        "display_name": "Trivial",
        "criteria": {"criteria_ids": ["answer"], "criteria_human": "Answers yes."},
        "version_pins": {
            "constructs": {"trivial": VERSION},
            "scorer_version": "exact_match@1",
            "methodology_version": "1.0.0",
            "adapter_version": "http@1",
        },
        "scorer_pins": {"exact_match": "1"},
        "dataset_hashes": {"truth": sha256_hex(dataset)},
        "resolution_programme": [
            {"step_id": "invoke", "type": "construct_invocation", "construct_id": "trivial"},
            {"step_id": "aggregate", "type": "aggregation"},
        ],
        "fork_definitions": [
            {
                "fork_id": "f_01",
                "options": [
                    {"option_id": "meets", "label": "Answers yes"},
                    {"option_id": "falls_short", "label": "Answers otherwise, or not at all"},
                ],
            }
        ],
        "scoring": {
            "criteria_scorers": {
                "answer": {
                    "scorer": "exact_match",
                    "params": {"field": "answer", "expected": "answer"},
                }
            }
        },
        "execution_policy": {"max_concurrency": mode.concurrency, "sanitise_input": mode.sanitises},
        "product_theatre_config": {
            "ground_truth_source": "CUSTOM",
            "construct_under_test": "trivial",
            "adapter_type": "http",
            "replay_data_path": "truth.jsonl",
            "replay_dataset_id": "truth",
        },
    }


def episode(seq: int) -> JsonObject:
    """Return one line of the dataset."""
    return {
        "episode_id": f"trivial-{seq}",
        "input_data": {"question": "Is it?", "seq": seq},
        "expected_output": {"answer": "yes"},
    }


def commit(home: Path, total: int, mode: Mode) -> tuple[FileTheatreStore, str]:
    """Write the dataset and a committed theatre; return the store and the theatre's id."""
    home.mkdir(parents=True)
    with (home / "truth.jsonl").open("wb") as lines:
        for seq in range(1, total + 1):
            lines.write(canonical_line(episode(seq)))
    template = template_of((home / "truth.jsonl").read_bytes(), mode)
    store, theatre_id = FileTheatreStore(home), str(uuid5(UUID(int=0), str(home)))
    theatre, created = Theatre.create(theatre_id, template, at=utc_now())
    receipt = CommitmentProtocol.commit(
        theatre_id,
        template,
        coin=COIN,
        scorer_pins={"exact_match": "1"},
        scorer_kinds={"exact_match": "exact"},
        committed_at=utc_now(),
    )
    store.create_folder(theatre_id, template, template_folder=home)
    with store.hold(theatre_id) as held:
        asyncio.run(held.journal.note(created))
        store.write_receipt(receipt, COIN)
        asyncio.run(held.journal.note(theatre.commit(receipt)[1]))
    return store, theatre_id


def adapter_for(url: str) -> HTTPOracleAdapter:
    """Return the client of a run, as the command line makes it."""
    return HTTPOracleAdapter(
        url, policy=OutboundPolicy(allow=("127.0.0.1",)), clock=utc_now, monotonic=time.monotonic
    )


async def run(store: FileTheatreStore, theatre_id: str, url: str) -> None:
    """Run a committed theatre to its sealed bundle, with the nonce that it has, if it has one."""
    adapter = adapter_for(url)
    with store.hold(theatre_id) as held:
        surroundings = RunContext(
            coin=held.coin,
            run_nonce=held.run_nonce,
            adapters={"trivial": adapter},
            invoke=make_retrying_invoker(asyncio.sleep),
            datasets=DatasetRoots([held.template_folder]),
            scorers=load_scorers(),
            sanitiser=TextSanitiser(),
            registry=SchemaRegistry(),
            clock=utc_now,
            sleep=asyncio.sleep,
        )
        settings = RunSettings(output_dir=held.folder, drafts_dir=held.folder / "drafts")
        async with contextlib.aclosing(adapter):
            await ReplayEngine(held.theatre, held.journal, surroundings, settings).run()
        sealed = [path.name for path in held.folder.glob("evidence_bundle_*")]
    if len(sealed) != 1:
        raise RuntimeError(f"expected one sealed bundle, got {sealed}")


def requests_of(theatre_id: str, total: int) -> list[OracleInvocationRequest]:
    """Return every request that a run makes."""
    draws = Draws(COIN, "0" * 64)
    return [
        OracleInvocationRequest(
            invocation_id=draws.invocation_id(theatre_id, seq=seq),
            theatre_id=theatre_id,
            episode_id=draws.alias(f"trivial-{seq}"),
            construct_id="trivial",
            construct_version=VERSION,
            input_data={"question": "Is it?", "seq": seq},
            metadata=InvocationMetadata(invoked_at="2026-11-21T12:00:00.000000Z"),
        )
        for seq in range(1, total + 1)
    ]
