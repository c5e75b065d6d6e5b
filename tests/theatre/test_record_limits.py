"""What a construct may send must always fit into records that can be read back."""

import asyncio
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from tests.theatre.runs import (
    CHAIN,
    EASEL,
    EASEL_VERSION,
    PILOT,
    SANITISED,
    TEMPLATE,
    VERSION,
    ScriptedAdapter,
    call_step,
    checked,
    episodes,
    pilot_stage,
    with_changes,
)
from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import (
    MAX_INPUT_DEPTH,
    JsonObject,
    JsonValue,
    canonical_bytes,
    canonical_line,
)
from theatre.engine.errors import DatasetError, ProgrammeError
from theatre.engine.models import (
    EpisodeOutcome,
    EpisodeResult,
    InvocationRecord,
    InvocationStatus,
    Scored,
    read_episodes,
)
from theatre.engine.oracle_contract import (
    MAX_ANSWER_BYTES,
    Attempt,
    InvocationMetadata,
    OracleInvocationRequest,
    read_answer,
)
from theatre.engine.replay.preflight import largest_answers_bytes, largest_episode_bytes
from theatre.engine.templates import product_template
from theatre.files.run_journal import FileRunJournal

THEATRE = "5b9e3a54-2f6c-4c29-9d5f-0a52f8e7a111"
NOW = datetime(2026, 11, 21, tzinfo=UTC)
REQUEST = OracleInvocationRequest(
    invocation_id="i",
    theatre_id=THEATRE,
    episode_id="e",
    construct_id="c",
    construct_version="0123456",
    input_data={},
    metadata=InvocationMetadata(invoked_at="2026-11-21T00:00:00.000000Z"),
)


def nested(levels: int) -> JsonObject:
    value: JsonObject = {}
    for _ in range(levels - 1):
        value = {"deeper": value}
    return value


def answer(output: JsonObject) -> bytes:
    return canonical_bytes(
        {
            "invocation_id": "i",
            "construct_id": "c",
            "construct_version": "0123456",
            "status": "success",
            "output_data": output,
        }
    )


def read(raw: bytes) -> Attempt:
    return read_answer(raw, REQUEST, latency_ms=1, responded_at=NOW)


def record(attempts: list[Attempt]) -> EpisodeResult:
    return EpisodeResult(
        seq=1,
        episode_id="e",
        status=InvocationStatus.SUCCESS,
        outcome=EpisodeOutcome.SCORED,
        scores={"right": Scored(0)},
        facts={},
        record=InvocationRecord(
            {
                "seq": 1,
                "episode_id": "e",
                "calls": [{"attempts": [attempt.as_document() for attempt in attempts]}],
            }
        ),
    )


def journal_round_trip(folder: Path, result: EpisodeResult) -> EpisodeResult:
    async def write_and_read() -> EpisodeResult:
        event = AuditEvent(
            event_type="episodes_recorded",
            at="2026-11-21T00:00:00.000000Z",
            detail={"seqs": [[1, 1]]},
        )
        await FileRunJournal(folder, THEATRE).append([result], [event])
        return await anext(FileRunJournal(folder, THEATRE).results())

    return asyncio.run(write_and_read())


def test_the_deepest_answer_that_is_accepted_can_be_read_back(tmp_path: Path) -> None:
    # The envelope is one level round `output_data`.
    attempt = read(answer(nested(MAX_INPUT_DEPTH - 1)))
    assert attempt.response.status is InvocationStatus.SUCCESS
    result = record([attempt])
    assert journal_round_trip(tmp_path, result) == result


def test_an_answer_one_level_deeper_is_an_error() -> None:
    attempt = read(answer(nested(MAX_INPUT_DEPTH)))
    assert (attempt.response.status, attempt.reason) == (InvocationStatus.ERROR, "too-deep")


def test_eleven_rejected_answers_full_of_nul_bytes_can_be_read_back(tmp_path: Path) -> None:
    attempts = [read(b"\0" * MAX_ANSWER_BYTES)] * 11
    assert attempts[0].reason == "not-json"
    result = record(attempts)
    assert journal_round_trip(tmp_path, result) == result


def test_the_deepest_output_of_a_chain_is_handed_on_and_can_be_read_back(tmp_path: Path) -> None:
    """What a later construct is sent holds it one level deeper, beside the episode."""
    deepest = nested(MAX_INPUT_DEPTH - 1)
    records = episodes(1)
    # An episode's line is one level round its input.
    records[0]["input_data"] = nested(MAX_INPUT_DEPTH - 1)
    changes: dict[str, JsonValue] = {
        **CHAIN,
        **SANITISED,
        "/resolution_programme": [
            call_step(),
            {
                "step_id": "compute",
                "type": "deterministic_computation",
                "input_spec": {"computation": "provenance_chain"},
            },
        ],
    }
    finished = pilot_stage(tmp_path, records, changes=changes).run(
        {
            EASEL: ScriptedAdapter(lambda _: {"output_data": deepest}, version=EASEL_VERSION),
            PILOT: ScriptedAdapter(),
        }
    )
    assert cast("JsonObject", finished.calls(1)[1]["request"])["input_data"] == {
        "episode": records[0]["input_data"],
        "upstream": {EASEL: deepest},
    }
    assert [check.as_document() for check in checked(finished.bundle).failed] == []


class Shouting(ScriptedAdapter):
    """Answers each call well, after ten answers that are as large as they can be and no JSON."""

    def __init__(self, version: str) -> None:
        super().__init__(version=version)
        self._tries: Counter[str] = Counter()

    async def invoke(self, request: OracleInvocationRequest) -> Attempt:
        self._tries[request.invocation_id] += 1
        if self._tries[request.invocation_id] <= 10:
            noise = b"x" * MAX_ANSWER_BYTES
            return read_answer(noise, request, latency_ms=1, responded_at=NOW)
        return await super().invoke(request)


def test_a_chain_that_shouts_twice_makes_a_record_that_can_be_read_back(tmp_path: Path) -> None:
    changes: dict[str, JsonValue] = {
        **CHAIN,
        "/execution_policy/deterministic_sample": 1,
        "/execution_policy/retry_policy": {"max_retries": 10, "backoff_seconds": 0},
    }
    finished = pilot_stage(tmp_path, episodes(1), changes=changes).run(
        {EASEL: Shouting(EASEL_VERSION), PILOT: Shouting(VERSION)}
    )
    assert finished.resolution["outcome"] == "certified"


EXAMPLES = [
    # hops, retries, repeats: the largest answers of a record in MiB, as they are added up by hand.
    (1, 2, 0, 4 + 3),
    (2, 10, 1, 2 * (4 * (2 + 1) + 22)),
    (6, 2, 0, 4 * (6 + 15) + 18),
]


@pytest.mark.parametrize(("hops", "retries", "repeats", "mebibytes"), EXAMPLES)
def test_the_largest_answers_of_a_record_are_added_up_over_hops_tries_and_rounds(
    hops: int, retries: int, repeats: int, mebibytes: int
) -> None:
    view = product_template(chained(hops, retries, repeats))
    assert largest_answers_bytes(view) == mebibytes * 1024 * 1024


def test_a_template_whose_answers_might_not_be_read_back_is_refused_before_the_first_call(
    tmp_path: Path,
) -> None:
    template = chained(6, 10, 1)
    config = cast("JsonObject", template["product_theatre_config"])
    names = cast("list[str]", config["construct_chain"])
    changes: dict[str, JsonValue] = {
        f"/{member}": template[member]
        for member in ("execution_policy", "version_pins", "product_theatre_config")
    }
    stage = pilot_stage(tmp_path, episodes(1), changes=changes)
    with pytest.raises(ProgrammeError, match="not 314572800"):
        stage.run({name: ScriptedAdapter() for name in names})


def test_a_line_of_the_dataset_may_be_shorter_the_more_calls_repeat_it() -> None:
    sizes = [
        largest_episode_bytes(product_template(chained(hops, 0, repeats)))
        for hops, repeats in ((1, 0), (1, 1), (4, 1))
    ]
    assert sizes == [8 * 1024 * 1024, 8 * 1024 * 1024, 2 * 1024 * 1024]
    line = canonical_line(episodes(1)[0])
    with pytest.raises(DatasetError, match=f"line 1: expected at most {len(line) - 1} bytes"):
        list(read_episodes([line], max_bytes=len(line) - 1))
    assert [e.seq for e in read_episodes([line], max_bytes=len(line))] == [1]


def chained(hops: int, retries: int, repeats: int) -> JsonObject:
    """Return the pilot's template for a chain of `hops` constructs, the last one under test."""
    names: list[JsonValue] = [*(f"early_{n}" for n in range(1, hops)), PILOT]
    return with_changes(
        TEMPLATE,
        {
            "/dataset_hashes": {"truth": "0" * 64},
            "/version_pins/constructs": {str(name): VERSION for name in names},
            "/product_theatre_config/construct_chain": names,
            "/execution_policy/deterministic_sample": repeats,
            "/execution_policy/retry_policy": {"max_retries": retries, "backoff_seconds": 0},
        },
    )
