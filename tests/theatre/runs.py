"""Runs for the tests of the engine: the real store, journal and loop, and a construct of choice."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict, Unpack, cast
from uuid import UUID, uuid5

from theatre.engine.bundle_check import CheckReport
from theatre.engine.bundle_check.check import check_bundle
from theatre.engine.canonical_json import (
    JsonObject,
    JsonValue,
    canonical_bytes,
    canonical_line,
    parse_object,
    sha256_hex,
)
from theatre.engine.clock import Clock, parse_rfc3339
from theatre.engine.coin import Coin, Draws
from theatre.engine.commitment import CommitmentProtocol, CommitmentReceipt
from theatre.engine.evidence_bundle import bundle_name
from theatre.engine.models import Scorer
from theatre.engine.oracle_contract import (
    Attempt,
    Isolation,
    OracleAdapter,
    OracleInvocationRequest,
    read_answer,
)
from theatre.engine.replay import ReplayEngine, RunContext, RunJournal, RunSettings
from theatre.engine.replay.recording import read_sequences
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.theatre import Theatre
from theatre.engine.tier_assigner import TierHistory
from theatre.files.datasets import DatasetRoots
from theatre.files.run_journal import FileRunJournal
from theatre.files.theatre_store import FileTheatreStore
from theatre.oracles.retry import make_retrying_invoker
from theatre.oracles.sanitise import TextSanitiser
from theatre.scorers import load_computations, load_scorers

PILOT = "pilot"
VERSION = "c0ffee" * 10 + "beef"
EASEL = "easel"
EASEL_VERSION = "ea5e1" * 8
BEGIN = datetime(2026, 11, 21, 12, tzinfo=UTC)
COIN = Coin(hashlib.sha256(b"the coin of the tests").digest())
"""The coin of every run whose draws a test, or what is published of a shipped theatre, pins."""
LATE = datetime(2100, 1, 1, tzinfo=UTC)
"""The clock of a checker for whom nothing is to come."""

TEMPLATE: JsonObject = {
    "schema_version": "2.1.0",
    "theatre_id": "product_pilot_v1",
    "template_family": "PRODUCT",
    "execution_path": "replay",
    "display_name": "Pilot",
    "criteria": {
        "criteria_ids": ["colour", "recall"],
        "criteria_human": "Names the colour, and says how much it remembers.",
        "weights": {"colour": 0.75, "recall": 0.25},
    },
    "version_pins": {
        "constructs": {PILOT: VERSION},
        "scorer_version": "exact_match@1",
        "methodology_version": "1.2.0",
        "adapter_version": "local@1",
    },
    "scorer_pins": {"exact_match": "1", "numeric_tolerance": "1"},
    "dataset_hashes": {},
    "resolution_programme": [
        {"step_id": "invoke", "type": "construct_invocation", "construct_id": PILOT},
        {"step_id": "aggregate", "type": "aggregation"},
    ],
    "fork_definitions": [
        {
            "fork_id": "f_01",
            "options": [
                {"option_id": "meets", "label": "Meets it"},
                {"option_id": "falls_short", "label": "Falls short"},
            ],
        }
    ],
    "scoring": {
        "holdout_split": 0.2,
        "criteria_scorers": {
            "colour": {
                "scorer": "exact_match",
                "params": {"field": "colour", "expected": "colour"},
            },
            "recall": {
                "scorer": "numeric_tolerance",
                "params": {"field": "recall", "expected": "recall", "abs": 0.1},
            },
        },
    },
    "execution_policy": {
        "retry_policy": {"max_retries": 0, "backoff_seconds": 0},
        "sanitise_input": False,
    },
    "product_theatre_config": {
        "ground_truth_source": "CUSTOM",
        "construct_under_test": PILOT,
        "adapter_type": "local",
        "replay_data_path": "truth.jsonl",
        "replay_dataset_id": "truth",
    },
}

SANITISED: Mapping[str, JsonValue] = {"/execution_policy/sanitise_input": True}
CHAIN: Mapping[str, JsonValue] = {
    "/version_pins/constructs": {EASEL: EASEL_VERSION, PILOT: VERSION},
    "/product_theatre_config/construct_chain": [EASEL, PILOT],
}
"""Changes of TEMPLATE: its one step stands for the chain."""

EXPECTED: JsonObject = {"colour": "red", "recall": 0.5}
Answer = Callable[[OracleInvocationRequest], JsonObject]

NOT_FILLED: dict[str, Any] = dict.fromkeys(
    ("qualification", "corrected_scores", "repeats", "usage", "owner")
)
"""The members of a certificate that nothing in this release fills."""


PILOT_FINDINGS = (
    *("baseline-meets-interval:colour", "baseline-meets-interval:recall"),
    *("one-expectation:colour", "one-expectation:recall"),
    "within-item-variance-unknown",
)
"""What every certificate of TEMPLATE says: each of its episodes expects the same."""


def right(_: OracleInvocationRequest) -> JsonObject:
    """Answer as expected."""
    return {"output_data": {**EXPECTED}}


def answer_as_asked(request: OracleInvocationRequest) -> JsonObject:
    """Answer with what the episode's `input_data.answer` holds, else as expected."""
    answer: JsonObject = request.input_data.get("answer", right(request))
    return answer


def call_step(construct_id: str = PILOT, **members: JsonValue) -> JsonObject:
    """Return a committed step that calls a construct."""
    return {
        "step_id": f"call_{construct_id}",
        "type": "construct_invocation",
        "construct_id": construct_id,
        **members,
    }


def episodes(count: int, answers: Mapping[int, JsonObject] | None = None) -> list[JsonObject]:
    """Return episodes 1…count; `answers` are what `answer_as_asked` is to answer."""
    asked = answers or {}
    return [
        {
            "episode_id": f"pilot-{seq}",
            "input_data": {"seq": seq} | ({"answer": asked[seq]} if seq in asked else {}),
            "expected_output": {**EXPECTED},
        }
        for seq in range(1, count + 1)
    ]


ISOLATED = Isolation(files=True, processes=True, network=True, by="landlock")

ERROR: JsonObject = {"status": "error", "output_data": None, "error_detail": "cannot"}
REFUSED: JsonObject = {"status": "refused", "output_data": None, "error_detail": "will not"}
WRONG: JsonObject = {"output_data": {"colour": "blue", "recall": 0.9}}


class ScriptedAdapter:
    """Reaches a construct in this process: a function from request to envelope members."""

    def __init__(
        self,
        answer: Answer = right,
        *,
        pin: str = "local@1",
        version: str | None = VERSION,
        isolation: Isolation = ISOLATED,
    ) -> None:
        self.asked: list[OracleInvocationRequest] = []
        self.closed = False
        self._answer = answer
        self._pin = pin
        self._version = version
        self._isolation = isolation

    @property
    def pin(self) -> str:
        """Return the adapter's name and version."""
        return self._pin

    @property
    def computed_version(self) -> str | None:
        """Return the version that the engine would have computed."""
        return self._version

    async def probe_isolation(self, _: Sequence[Path]) -> Isolation:
        """Return what a program would have been kept from: this one is the test's own function."""
        return self._isolation

    async def invoke(self, request: OracleInvocationRequest) -> Attempt:
        """Return what the function answers, read as any adapter reads it."""
        self.asked.append(request)
        envelope = {
            "invocation_id": request.invocation_id,
            "construct_id": request.construct_id,
            "construct_version": request.construct_version,
            "status": "success",
            **self._answer(request),
        }
        asked_at = parse_rfc3339(request.metadata.invoked_at)
        return read_answer(canonical_bytes(envelope), request, latency_ms=7, responded_at=asked_at)

    async def aclose(self) -> None:
        """Note that nobody needs it any more."""
        self.closed = True


def drawn(seed: int, highest: int) -> int:
    """Return a number from 1 to `highest` that looks random and is the same every time."""
    return int.from_bytes(hashlib.sha256(str(seed).encode()).digest()[:8], "big") % highest + 1


def ticking_clock() -> Clock:
    """Return a clock that is one second later each time it is read."""
    seconds = iter(range(10**9))
    return lambda: BEGIN + timedelta(seconds=next(seconds))


def with_changes(template: JsonObject, changes: Mapping[str, JsonValue]) -> JsonObject:
    """Return a copy of `template` with the member at each pointer replaced, or added."""
    changed: Any = json.loads(canonical_bytes(template))
    for pointer, value in changes.items():
        *parents, last = pointer.split("/")[1:]
        place = changed
        for key in parents:
            place = place[int(key)] if isinstance(place, list) else place[key]
        place[int(last) if isinstance(place, list) else last] = value
    return cast("JsonObject", changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What a run left in its theatre's folder."""

    theatre: Theatre
    folder: Path
    trail: list[JsonObject]

    @property
    def bundle(self) -> Path:
        """Return where the bundle is, if there is one."""
        return self.folder / bundle_name(self.theatre.theatre_id)

    @property
    def resolution(self) -> JsonObject:
        """Return the detail of the last event, which must be `resolved`."""
        assert self.trail[-1]["event_type"] == "resolved"
        return cast("JsonObject", self.trail[-1]["detail"])

    def record(self, seq: int) -> JsonObject:
        """Return the invocation record of an episode (of a dataset up to a thousand)."""
        return self.document(f"invocations/episode_{seq:06d}.json")

    def calls(self, seq: int) -> list[JsonObject]:
        """Return the calls of an episode."""
        return cast("list[JsonObject]", self.record(seq)["calls"])

    def steps(self) -> list[JsonObject]:
        """Return what each step of the programme came to."""
        return cast("list[JsonObject]", self.document("resolution.json")["steps"])

    def document(self, path: str) -> JsonObject:
        """Return a JSON document of the bundle."""
        return parse_object((self.bundle / path).read_bytes())

    def lines(self, path: str) -> list[JsonObject]:
        """Return the documents of a JSONL file of the bundle."""
        return [parse_object(line) for line in (self.bundle / path).read_bytes().splitlines()]


class RunOptions(TypedDict, total=False):
    """How a run is carried out; `around` and `journal` change what it reaches."""

    certificate_run: bool
    batch_size: int
    concurrency_limit: int | None
    scorers: Mapping[str, Scorer]
    history: TierHistory
    around: Callable[[RunContext], RunContext]
    journal: Callable[[FileRunJournal], RunJournal]


class Stage:
    """One committed theatre in a folder of its own, and the way to run it, as often as needed.

    Data paths of `template` begin at `data`. Another process that makes a stage of the same folder
    has the same theatre.
    """

    def __init__(
        self,
        folder: Path,
        template: JsonObject,
        *,
        data: Path,
        environment: JsonObject | None = None,
        reproduces: str | None = None,
        name: str = "a stage of its own",
        coin: Coin = COIN,
    ) -> None:
        self.data = data
        self._drawn_coin = coin
        self.clock = ticking_clock()
        self._store = FileTheatreStore(folder / "home")
        self.template = template
        theatre_id = str(uuid5(UUID(int=0), name))
        if theatre_id not in self._store.theatre_ids():
            self._commit(theatre_id, environment, reproduces)
        with self._store.hold(theatre_id) as held:
            self.receipt: CommitmentReceipt = held.theatre.commitment

    def _commit(
        self, theatre_id: str, environment: JsonObject | None, reproduces: str | None
    ) -> None:
        template = self.template
        theatre, created = Theatre.create(theatre_id, template, at=self.clock())
        pins = cast("Mapping[str, str]", template["scorer_pins"])
        kinds = {name: scorer.kind.value for name, scorer in load_scorers().items()}
        # Of the scorers that only tests install.
        kinds |= {"told": "judged", "mine": "textual"}
        receipt = CommitmentProtocol.commit(
            theatre_id,
            template,
            coin=self._drawn_coin,
            scorer_pins=pins,
            scorer_kinds={name: kinds.get(name, "exact") for name in pins},
            committed_at=self.clock(),
            environment=environment,
            reproduces=reproduces,
        )
        self._store.create_folder(theatre_id, template, template_folder=self.data)
        with self._store.hold(theatre_id) as held:
            asyncio.run(held.journal.note(created))
            self._store.write_receipt(receipt, self._drawn_coin)
            asyncio.run(held.journal.note(theatre.commit(receipt)[1]))

    def _coin(self) -> Coin | None:
        with self._store.hold(self.theatre_id) as held:
            return held.coin

    @property
    def draws(self) -> Draws:
        """Return what the theatre's coin draws."""
        return Draws(self._drawn_coin, self.receipt.commitment_hash)

    @property
    def theatre_id(self) -> str:
        """Return the instance's id."""
        return self.receipt.theatre_id

    @property
    def folder(self) -> Path:
        """Return the theatre's folder in the store."""
        return self._store.folder(self.theatre_id)

    @property
    def drafts(self) -> Path:
        """Return where refused drafts are kept."""
        return self.folder.parents[1] / "drafts"

    @property
    def state(self) -> str:
        """Return the state that the chain shows."""
        return self._store.view(self.theatre_id).state.value

    def run(
        self, adapter: OracleAdapter | Mapping[str, OracleAdapter], **options: Unpack[RunOptions]
    ) -> Finished:
        """Run, or go on; errors as the engine's.

        `adapter` is that of the construct under test, or one for each construct by its id.
        """
        return asyncio.run(self.perform(adapter, **options))

    async def perform(
        self, adapter: OracleAdapter | Mapping[str, OracleAdapter], **options: Unpack[RunOptions]
    ) -> Finished:
        """Do what `run` does, in the caller's event loop."""
        settings = RunSettings(
            output_dir=self.folder,
            drafts_dir=self.drafts,
            issuer="a test",
            certificate_run=options.get("certificate_run", True),
            batch_size=options.get("batch_size", 10),
            # However slow the machine: what is in a batch does not depend on it.
            batch_seconds=3600,
            concurrency_limit=options.get("concurrency_limit"),
        )
        config = cast("JsonObject", self.template["product_theatre_config"])
        under_test = cast("str", config["construct_under_test"])
        adapters = adapter if isinstance(adapter, Mapping) else {under_test: adapter}
        around = options.get("around", _as_it_is)
        surroundings = around(
            RunContext(
                coin=self._coin(),
                adapters=adapters,
                invoke=make_retrying_invoker(asyncio.sleep),
                datasets=DatasetRoots([self.data]),
                scorers=options.get("scorers", load_scorers()),
                computations=load_computations(),
                sanitiser=TextSanitiser(),
                registry=SchemaRegistry(),
                clock=self.clock,
                sleep=asyncio.sleep,
                history=options.get("history", TierHistory()),
            )
        )
        with self._store.hold(self.theatre_id) as held:
            journal = options.get("journal", _the_own)(held.journal)
            try:
                engine = ReplayEngine(held.theatre, journal, surroundings, settings)
                theatre = await engine.run()
            finally:
                for one in adapters.values():
                    await one.aclose()
            trail = [entry async for entry in held.journal.trail()]
            return Finished(theatre=theatre, folder=held.folder, trail=trail)


def _as_it_is(surroundings: RunContext) -> RunContext:
    return surroundings


def _the_own(journal: FileRunJournal) -> RunJournal:
    return journal


def recorded_lines(folder: Path) -> list[bytes]:
    """Return the lines of the journal in `folder` that count: those that its audit trail names."""
    trail, journal = folder / "audit_trail.jsonl", folder / "journal.jsonl"
    if not (trail.exists() and journal.exists()):
        return []
    entries = trail.read_bytes()
    whole = entries[: entries.rfind(b"\n") + 1].splitlines()
    named = sum(len(one) for entry in whole for one in read_sequences(parse_object(entry)))
    return journal.read_bytes().splitlines(keepends=True)[:named]


def checked(bundle: Path) -> CheckReport:
    """Return what the independent check finds, with all that is installed."""
    return check_bundle(
        bundle,
        load_scorers(),
        registry=SchemaRegistry(),
        computations=load_computations(),
        sanitiser=TextSanitiser(),
        now=LATE,
    )


def pilot_stage(
    folder: Path,
    records: Sequence[JsonObject],
    *,
    changes: Mapping[str, JsonValue] | None = None,
    further: Mapping[str, bytes] | None = None,
    environment: JsonObject | None = None,
    reproduces: str | None = None,
    name: str = "a stage of its own",
    coin: Coin = COIN,
) -> Stage:
    """Write the dataset, `further` ones by file name, and commit the changed TEMPLATE."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {"truth.jsonl": b"".join(canonical_line(record) for record in records)}
    files.update(further or {})
    for file, raw in files.items():
        (folder / file).write_bytes(raw)
    hashes: JsonObject = {
        name.removesuffix(".jsonl"): sha256_hex(raw) for name, raw in files.items()
    }
    template = with_changes(TEMPLATE, {"/dataset_hashes": hashes, **(changes or {})})
    return Stage(
        *(folder, template),
        data=folder,
        environment=environment,
        reproduces=reproduces,
        name=name,
        coin=coin,
    )
