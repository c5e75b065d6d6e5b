"""One run with everything that a template can commit, for the tests of the independent check.

A chain of two constructs, sanitised inputs, repeats that differ, an output that does not fit,
three calls at a time with answers behind the end of the run, two computations, and another
environment than that of the certificate before.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from tests.theatre.runs import (
    ERROR,
    EXPECTED,
    PILOT,
    REFUSED,
    VERSION,
    ScriptedAdapter,
    Stage,
    pilot_stage,
)
from theatre.engine.canonical_json import (
    JsonObject,
    JsonValue,
    canonical_bytes,
    canonical_line,
    canonical_sha256,
)
from theatre.engine.oracle_contract import Attempt, OracleInvocationRequest
from theatre.engine.tier_assigner import TierHistory

READER = "reader"
READER_VERSION = "feed" * 10
READER_PIN = "http@1"
TOTAL = 14
"""Episodes in the dataset; DISCARDED were answered behind LAST, the last one of the run."""

REPEATED, DIFFERING = (1, 2, 7, 12), (2, 12)
"""Episodes that were called twice, and those of them that were answered otherwise then."""

CLEANED, UNSENDABLE, MISFIT, REFUSING, MISMATCHED, LAST = 1, 3, 5, 6, 8, 10
DISCARDED = (11, 12)
LOG = b"".join(
    canonical_line(record | {"hash": canonical_sha256(record)})
    for record in [
        {"id": "a", "prev_hash": "0" * 64, "timestamp": "2026-01-02T03:04:05Z", "user": "x"}
    ]
)
GOLD = b"".join(
    canonical_line({"episode_id": f"pilot-{number}", "label": {"n": number}, "labeller": "a test"})
    for number in (2, 5)
)
MISFITTING: JsonObject = {"output_data": {"colour": 7, "recall": 0.5}}
HIDDEN = "one\u200b word, <|im_start|> and\u202e more"

_INPUTS: Mapping[int, JsonObject] = {
    CLEANED: {"text": HIDDEN, "verbatim": HIDDEN},
    UNSENDABLE: {"a\u200bb": 1},
    MISFIT: {"answer": MISFITTING},
    REFUSING: {"answer": REFUSED},
    MISMATCHED: {"read": {"construct_version": "0" * 40}},
    LAST: {"answer": ERROR},
    DISCARDED[0]: {"read": {"construct_version": "0" * 40}},
}

CHANGES: dict[str, JsonValue] = {
    "/version_pins": {
        "constructs": {READER: READER_VERSION, PILOT: VERSION},
        "scorer_version": "exact_match@1",
    },
    "/product_theatre_config/construct_chain": [READER, PILOT],
    "/product_theatre_config/construct_endpoints": {
        READER: {"adapter_type": "http", "endpoint": f"construct:{READER}"}
    },
    "/product_theatre_config/gold_label_set": "gold_labels.jsonl",
    "/product_theatre_config/dataset_paths": {"log": "log.jsonl"},
    "/execution_policy": {
        "retry_policy": {"max_retries": 1, "backoff_seconds": 0},
        "failure_threshold": 0.25,
        "deterministic_sample": 7,
        "max_concurrency": 3,
        "timeout_seconds": 20,
    },
    "/resolution_programme": [
        {
            "step_id": "ask",
            "type": "construct_invocation",
            "construct_id": PILOT,
            "timeout_seconds": 4,
            "input_spec": {"raw_fields": ["/verbatim"], "role_markers": "break"},
            "output_spec": {
                "type": "object",
                "required": ["colour"],
                "properties": {"colour": {"type": "string"}, "again": {"type": "integer"}},
            },
        },
        {
            "step_id": "provenance",
            "type": "deterministic_computation",
            "input_spec": {
                "computation": "provenance_chain",
                "over": "log",
                "params": {"required": ["user"]},
            },
        },
        {
            "step_id": "filled",
            "type": "deterministic_computation",
            "input_spec": {
                "computation": "provenance_chain",
                "params": {"required": ["hops.pilot.colour", "expected_output.colour"]},
            },
        },
        {"step_id": "aggregate", "type": "aggregation"},
    ],
}


NO_HISTORY = TierHistory()


class HeldAdapter(ScriptedAdapter):
    """Keeps the answer that ends the run until the discarded ones are in, others for ever."""

    def __init__(self) -> None:
        super().__init__(self._answered)
        self._asked_before: Counter[str] = Counter()
        self._in = {number: asyncio.Event() for number in DISCARDED}

    async def invoke(self, request: OracleInvocationRequest) -> Attempt:
        number = _number(request)
        if number == LAST:
            for event in self._in.values():
                await event.wait()
        attempt = await super().invoke(request)
        if number == DISCARDED[1] and self._asked_before[request.episode_id] > 1:
            self.note(number)
        elif number > DISCARDED[1]:
            await asyncio.Event().wait()
        return attempt

    def note(self, number: int) -> None:
        """Take note that an episode's answer is in."""
        self._in[number].set()

    def _answered(self, request: OracleInvocationRequest) -> JsonObject:
        """Answer as asked; in even episodes otherwise when asked again."""
        asked: JsonObject = request.input_data["episode"]
        answer = asked.get("answer", {"output_data": {**EXPECTED}})
        assert isinstance(answer, dict)
        times = self._asked_before[request.episode_id]
        self._asked_before[request.episode_id] += 1
        output = answer.get("output_data")
        if not isinstance(output, dict) or _number(request) % 2:
            return answer
        return {**answer, "output_data": output | {"again": times}}


class ReadingAdapter(ScriptedAdapter):
    """Reads aloud: the first construct of the chain. It may report another version."""

    def __init__(self, held: HeldAdapter) -> None:
        super().__init__(_read, pin=READER_PIN, version=READER_VERSION)
        self._held = held

    async def invoke(self, request: OracleInvocationRequest) -> Attempt:
        attempt = await super().invoke(request)
        number = _number(request)
        if attempt.response.status != "success" and number in DISCARDED:
            self._held.note(number)
        return attempt


def _read(request: OracleInvocationRequest) -> JsonObject:
    read: JsonObject = request.input_data.get("read", {})
    digest = hashlib.sha256(canonical_bytes(request.input_data)).hexdigest()
    return {"output_data": {"heard": digest}, **read}


def _number(request: OracleInvocationRequest) -> int:
    asked = request.input_data.get("episode", request.input_data)
    return cast("int", asked["number"])


def dataset() -> list[JsonObject]:
    """Return the episodes; those of `_INPUTS` end in the way that their names say."""
    return [
        {
            "episode_id": f"pilot-{number}",
            "input_data": {"number": number, **_INPUTS.get(number, {})},
            "expected_output": {**EXPECTED},
        }
        for number in range(1, TOTAL + 1)
    ]


FURTHER = {"log.jsonl": LOG, "gold_labels.jsonl": GOLD}
ENVIRONMENT: JsonObject = {
    "environment_hash": "ab" * 32,
    "interpreter": "CPython 3.11.7",
    "platform": "Linux",
}
PREVIOUS = ENVIRONMENT | {"environment_hash": "cd" * 32}


def feature_stage(folder: Path) -> Stage:
    """Commit the theatre."""
    return pilot_stage(folder, dataset(), changes=CHANGES, further=FURTHER, environment=ENVIRONMENT)


def run_every_feature(folder: Path, *, history: TierHistory = NO_HISTORY) -> Path:
    """Run it to its end and return the sealed bundle."""
    held = HeldAdapter()
    finished = feature_stage(folder).run(
        {READER: ReadingAdapter(held), PILOT: held},
        batch_size=4,
        history=history,
        around=lambda one: replace(one, environment=ENVIRONMENT, previous_environment=PREVIOUS),
    )
    assert finished.bundle.is_dir(), finished.resolution
    return finished.bundle
