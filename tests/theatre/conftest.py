"""Small real runs, shared by the tests that need evidence: real child processes, real bundles."""

import asyncio
import json
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from tests.theatre.every_feature import run_every_feature
from tests.theatre.every_rating import run_every_rating
from tests.theatre.runs import COIN
from tests.theatre.verification.confident_oracle import Verified, verified
from theatre.engine.canonical_json import (
    JsonObject,
    JsonValue,
    canonical_line,
    parse_object,
    sha256_hex,
)
from theatre.engine.commitment import CommitmentProtocol
from theatre.engine.evidence_bundle import bundle_name
from theatre.engine.replay import ReplayEngine, RunContext, RunSettings
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.scoring import TheatreScoringProvider
from theatre.engine.theatre import Theatre
from theatre.engine.tier_assigner import TierHistory
from theatre.files.datasets import DatasetRoots
from theatre.files.theatre_store import FileTheatreStore, TheatreLease
from theatre.oracles.construct_registry import (
    RegisteredConstruct,
    construct_from_argv,
    construct_version,
    local_adapter_for,
)
from theatre.oracles.retry import make_retrying_invoker
from theatre.scorers import load_scorers

CONSTRUCT_ID = "sums"

CONSTRUCT = '''
"""Adds numbers; `input_data.do` asks for every other way in which a call can end."""

import json
import os
import signal
import sys


def answer(request):
    asked = request["input_data"]
    do = asked.get("do")
    reply = {
        "invocation_id": request["invocation_id"],
        "construct_id": request["construct_id"],
        "construct_version": os.environ["ECHELON_CONSTRUCT_VERSION"],
        "status": "success",
        "output_data": {"sum": sum(asked["numbers"]), "parity": sum(asked["numbers"]) % 2 == 0},
    }
    if do == "err":
        return reply | {"status": "error", "output_data": None, "error_detail": "cannot add"}
    if do == "refuse":
        return reply | {"status": "refused", "output_data": {}, "error_detail": "will not add"}
    if do == "other-version":
        return reply | {"construct_version": "0" * 40}
    if do == "no-field":
        return reply | {"output_data": {"total": 1}}
    if do == "wrong":
        return reply | {"output_data": {"sum": -1, "parity": None}}
    return reply


for line in sys.stdin:
    request = json.loads(line)
    do = request["input_data"].get("do")
    if do == "hang":
        signal.pause()
    if do == "garbage":
        print("no envelope")
    else:
        print(json.dumps(answer(request)))
    sys.stdout.flush()
    if do == "complain":
        print("heavy numbers", file=sys.stderr)
'''
"""The construct of `real_run`, as source."""

TEMPLATE: JsonObject = {
    "schema_version": "2.1.0",
    "theatre_id": "product_sums_v1",
    "template_family": "PRODUCT",
    "execution_path": "replay",
    "display_name": "Sums",
    "criteria": {
        "criteria_ids": ["addition", "parity", "overlap"],
        "criteria_human": "Adds numbers and says whether the sum is even.",
        "weights": {"addition": 0.5, "parity": 0.3, "overlap": 0.2},
    },
    "version_pins": {"constructs": {}, "scorer_version": "shipped-1", "adapter_version": "local@1"},
    "scorer_pins": {"exact_match": "1", "field_match": "1"},
    "dataset_hashes": {},
    "resolution_programme": [
        {"step_id": "add", "type": "construct_invocation", "construct_id": CONSTRUCT_ID},
        {"step_id": "aggregate", "type": "aggregation"},
    ],
    "fork_definitions": [
        {
            "fork_id": "f_01",
            "options": [
                {"option_id": "meets", "label": "Adds"},
                {"option_id": "falls_short", "label": "Does not"},
            ],
        }
    ],
    "scoring": {
        "holdout_split": 0.3,
        "criteria_scorers": {
            "addition": {"scorer": "exact_match", "params": {"field": "sum", "expected": "sum"}},
            "parity": {
                "scorer": "exact_match",
                "params": {"field": "parity", "expected": "gold:even"},
            },
            "overlap": {"scorer": "field_match"},
        },
    },
    "execution_policy": {
        "on_threshold": "continue",
        "timeout_seconds": 1,
        "retry_policy": {"max_retries": 1, "backoff_seconds": 0},
        "sanitise_input": False,
    },
    "product_theatre_config": {
        "ground_truth_source": "CUSTOM",
        "construct_under_test": CONSTRUCT_ID,
        "adapter_type": "local",
        "replay_data_path": "sums.jsonl",
        "replay_dataset_id": "sums",
        "gold_label_set": "gold.jsonl",
    },
}
"""The template of `real_run`; pins and hashes are filled in by `run_small_theatre`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallRun:
    """What a run left: the sealed bundle (None without a certificate) and the store it ran in."""

    theatre: Theatre
    bundle: Path | None
    home: Path

    @property
    def sealed(self) -> Path:
        """Return the bundle of a run that was certified."""
        assert self.bundle is not None, "the run ended without a certificate"
        return self.bundle

    @property
    def certificate(self) -> JsonObject:
        """Return the certificate in the bundle."""
        return parse_object((self.sealed / "certificate.json").read_bytes())


def episode(
    number: int, numbers: Sequence[int], do: str | None = None, *, expected: bool = True
) -> JsonObject:
    """Return one episode of the construct that adds numbers."""
    asked: JsonObject = {"numbers": list(numbers)}
    if do is not None:
        asked["do"] = do
    made: JsonObject = {"episode_id": f"sum-{number}", "input_data": asked}
    if expected:
        made["expected_output"] = {"sum": sum(numbers), "parity": sum(numbers) % 2 == 0}
    return made


EVERY_OUTCOME: tuple[JsonObject, ...] = (
    episode(1, [1, 2]),
    episode(2, [2, 2], "wrong"),
    episode(3, [3, 5], "err"),
    episode(4, [1, 1], "refuse"),
    episode(5, [8, 9], "other-version"),
    episode(6, [4, 4], "no-field"),
    episode(7, [0, 3], "garbage"),
    episode(8, [5, 5], "complain"),
    episode(9, [6, 1], "hang"),
    episode(10, [7, 7], expected=False),
)
"""Ten episodes that end in every way in which an episode can end."""

GOLD: tuple[JsonObject, ...] = tuple(
    {"episode_id": f"sum-{number}", "label": {"even": even}, "labeller": "a test"}
    for number, even in ((1, False), (2, True), (3, True), (8, True), (9, False))
)


def utc_now() -> datetime:
    """Return the time: these runs are real."""
    return datetime.now(UTC)


def run_small_theatre(
    folder: Path,
    *,
    construct_source: str = CONSTRUCT,
    episodes: Sequence[JsonObject] = EVERY_OUTCOME,
    gold: Sequence[JsonObject] = GOLD,
    template_changes: Mapping[str, JsonValue] | None = None,
    history: TierHistory | None = None,
    batch_size: int = 4,
) -> SmallRun:
    """Commit and run a small theatre in `folder` with a construct in a real child process.

    `template_changes` replace members of TEMPLATE by JSON Pointer.
    """
    folder.mkdir(parents=True, exist_ok=True)
    construct = _write_construct(folder, construct_source)
    data = {"sums": ("sums.jsonl", episodes), "gold_labels": ("gold.jsonl", gold)}
    template = json.loads(json.dumps(TEMPLATE))
    for name, (file_name, records) in data.items():
        raw = b"".join(canonical_line(record) for record in records)
        (folder / file_name).write_bytes(raw)
        template["dataset_hashes"][name] = sha256_hex(raw)
    template["version_pins"]["constructs"][CONSTRUCT_ID] = construct_version(construct)
    for pointer, value in (template_changes or {}).items():
        *parents, last = pointer.split("/")[1:]
        place = template
        for key in parents:
            place = place[int(key)] if isinstance(place, list) else place[key]
        place[last] = value
    return asyncio.run(
        _commit_and_run(folder, template, construct, history or TierHistory(), batch_size)
    )


def _write_construct(folder: Path, source: str) -> RegisteredConstruct:
    program = folder / "construct" / "main.py"
    program.parent.mkdir(exist_ok=True)
    program.write_text(textwrap.dedent(source), encoding="utf-8")
    return construct_from_argv(CONSTRUCT_ID, json.dumps(["{python}", str(program)]), program.parent)


async def _commit_and_run(
    folder: Path,
    template: JsonObject,
    construct: RegisteredConstruct,
    history: TierHistory,
    batch_size: int,
) -> SmallRun:
    store, scorers = FileTheatreStore(folder / "home"), load_scorers()
    theatre, created = Theatre.create(str(uuid4()), template, at=utc_now())
    receipt = CommitmentProtocol.commit(
        theatre.theatre_id,
        template,
        coin=COIN,
        scorer_pins=TheatreScoringProvider(template, scorers).scorer_pins,
        scorer_kinds=TheatreScoringProvider(template, scorers).scorer_kinds,
        committed_at=utc_now(),
    )
    store.create_folder(theatre.theatre_id, template, template_folder=folder)
    with store.hold(theatre.theatre_id) as held:
        await held.journal.note(created)
        store.write_receipt(receipt, COIN)
        _, event = theatre.commit(receipt)
        await held.journal.note(event)
    with store.hold(theatre.theatre_id) as held:
        resolved = await _run(folder, held, construct, history, batch_size)
        bundle = held.folder / bundle_name(theatre.theatre_id)
        return SmallRun(
            theatre=resolved, bundle=bundle if bundle.is_dir() else None, home=folder / "home"
        )


async def _run(
    folder: Path,
    held: TheatreLease,
    construct: RegisteredConstruct,
    history: TierHistory,
    batch_size: int,
) -> Theatre:
    adapter = local_adapter_for(construct, clock=utc_now, monotonic=time.monotonic)
    try:
        engine = ReplayEngine(
            held.theatre,
            held.journal,
            RunContext(
                coin=held.coin,
                adapters={CONSTRUCT_ID: adapter},
                invoke=make_retrying_invoker(asyncio.sleep),
                datasets=DatasetRoots([folder]),
                scorers=load_scorers(),
                registry=SchemaRegistry(),
                clock=utc_now,
                sleep=asyncio.sleep,
                history=history,
            ),
            RunSettings(
                output_dir=held.folder,
                drafts_dir=held.folder / "drafts",
                batch_size=batch_size,
                # However slow the machine: what is in a batch does not depend on it.
                batch_seconds=3600,
            ),
        )
        return await engine.run()
    finally:
        await adapter.aclose()


@pytest.fixture(scope="session")
def real_run(tmp_path_factory: pytest.TempPathFactory) -> SmallRun:
    """A certified run of EVERY_OUTCOME, once a session. Copy its bundle before changing it."""
    return run_small_theatre(tmp_path_factory.mktemp("real-run"))


@pytest.fixture(scope="session")
def every_feature(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of a run with all that a template can commit; to be copied, too."""
    return run_every_feature(tmp_path_factory.mktemp("features"))


@pytest.fixture(scope="session")
def every_rating(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of a run that people rated; to be copied, too."""
    return run_every_rating(tmp_path_factory.mktemp("ratings"))


@pytest.fixture(scope="session")
def confident(tmp_path_factory: pytest.TempPathFactory) -> Verified:
    """`echelon verify` of an oracle that says how sure it is, to its end, once a session."""
    return verified(tmp_path_factory.mktemp("confident"))
