"""What an invocation record says: its answer, its outputs, whether its repeat differs.

Source: docs/contract/evidence.md §7.
"""

from __future__ import annotations

from typing import cast

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.models import EPISODE_RESULT, FIRST, SECOND, InvocationStatus


def calls_of(record: JsonObject, repeat: int = FIRST) -> list[JsonObject]:
    """Return the calls of one round, in order of their hops."""
    calls = cast("list[JsonObject]", record["calls"])
    return [call for call in calls if call["repeat"] == repeat]


def answering_call(record: JsonObject) -> JsonObject:
    """Return the call whose outcome is the episode's: the last one of the first round."""
    return calls_of(record)[-1]


def answering_attempt(record: JsonObject) -> JsonObject:
    """Return the attempt whose response is the episode's."""
    return _last_attempt(answering_call(record))


def last_latency(record: JsonObject) -> int:
    """Return the latency of the answer that counts, in milliseconds."""
    response = cast("JsonObject", answering_attempt(record)["response"])
    return cast("int", response["latency_ms"])


def outputs_of(record: JsonObject, repeat: int = FIRST) -> dict[str, JsonObject]:
    """Return construct → `output_data` of the hops that succeeded in one round, in order.

    Of an interactive episode: the runner's result, in the place of its first construct's output.
    """
    if EPISODE_RESULT in record:
        played = record[EPISODE_RESULT]
        construct = cast("str", calls_of(record)[0]["construct_id"])
        return {construct: played} if isinstance(played, dict) else {}
    outputs = {}
    for call in calls_of(record, repeat):
        response = cast("JsonObject", _last_attempt(call)["response"])
        if response["status"] == InvocationStatus.SUCCESS.value:
            outputs[cast("str", call["construct_id"])] = cast("JsonObject", response["output_data"])
    return outputs


def differs(record: JsonObject) -> bool:
    """Return whether a repeat did not give at every hop what the first round gave."""
    if not calls_of(record, SECOND):
        return False
    first, second = outputs_of(record), outputs_of(record, SECOND)
    return canonical_bytes(first) != canonical_bytes(second)


def facts_of(record: JsonObject) -> JsonObject:
    """Return what settling must know of a record; the journal stores it with the record.

    `adapters` are pins by construct, `version_mismatches` counts calls, `claimed` tells of a
    version that was not computed, `confidence` is the number that the answer states, if any,
    `input_changed` tells whether what was sent is not what the dataset holds.
    """
    calls = cast("list[JsonObject]", record["calls"])
    output = _answer(record)
    stated = output.get("confidence") if isinstance(output, dict) else None
    return {
        "adapters": {cast("str", call["construct_id"]): call["adapter"] for call in calls},
        "claimed": any(call["version_source"] == "claimed" for call in calls),
        "confidence": stated if isinstance(stated, int | float) else None,
        "differs": differs(record),
        "input_changed": _was_changed(cast("JsonObject | None", record["sanitised"])),
        "version_mismatches": sum(_count_mismatches(call) for call in calls),
    }


def input_sent(record: JsonObject) -> JsonObject:
    """Return the episode's input as the first construct of the chain was to get it."""
    request = cast("JsonObject", calls_of(record)[0]["request"])
    return cast("JsonObject", request["input_data"])


def _was_changed(sanitised: JsonObject | None) -> bool:
    return sanitised is not None and sanitised["raw_sha256"] != sanitised["sent_sha256"]


def _answer(record: JsonObject) -> JsonValue:
    """Return what the episode was answered: of an interactive one, what its runner made of it."""
    if EPISODE_RESULT in record:
        return record[EPISODE_RESULT]
    return cast("JsonObject", answering_attempt(record)["response"])["output_data"]


def _count_mismatches(call: JsonObject) -> bool:
    attempts = cast("list[JsonObject]", call["attempts"])
    return any(attempt["reason"] == "version-mismatch" for attempt in attempts)


def _last_attempt(call: JsonObject) -> JsonObject:
    return cast("list[JsonObject]", call["attempts"])[-1]
