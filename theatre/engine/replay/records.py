"""What an invocation record says: its answer, its outputs, whether its repeat differs.

Source: docs/contract/evidence.md §7.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.models import EPISODE_RESULT, FIRST, SECOND, InvocationStatus
from theatre.engine.oracle_contract import (
    Attempt,
    Isolation,
    OracleAdapter,
    OracleInvocationRequest,
    clean_detail,
    cut_raw,
)
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.templates import Hop

# Holds each answer against the committed `output_spec` (docs/contract/construct.md §1).


MISFIT = "output-spec"
"""The reason of an answer that was rejected for its shape; it is retried as any error is."""


def wrap_in_shape_check(
    hops: Iterable[Hop], adapters: Mapping[str, OracleAdapter], registry: SchemaRegistry
) -> dict[str, OracleAdapter]:
    """Return the adapter of each hop's construct; where a shape is committed, it is checked."""
    return {
        hop.construct_id: ShapeCheckingAdapter(
            adapters[hop.construct_id], hop.output_spec, registry
        )
        if hop.output_spec
        else adapters[hop.construct_id]
        for hop in hops
    }


class ShapeCheckingAdapter:
    """Passes calls on; a success whose `output_data` does not fit `output_spec` is an error."""

    def __init__(
        self, adapter: OracleAdapter, output_spec: Mapping[str, object], registry: SchemaRegistry
    ) -> None:
        self._adapter = adapter
        self._output_spec = output_spec
        self._registry = registry

    @property
    def pin(self) -> str:
        """Return the pin of the adapter behind."""
        return self._adapter.pin

    @property
    def computed_version(self) -> str | None:
        """Return the version that the adapter behind computes."""
        return self._adapter.computed_version

    async def probe_isolation(self, closed: Sequence[Path]) -> Isolation:
        """Return what the construct behind can reach."""
        return await self._adapter.probe_isolation(closed)

    async def invoke(self, request: OracleInvocationRequest) -> Attempt:
        """Make one try and judge the shape of what came back."""
        attempt = await self._adapter.invoke(request)
        output = attempt.response.output_data
        if attempt.response.status is not InvocationStatus.SUCCESS or output is None:
            return attempt
        violations = self._registry.validate_inline(self._output_spec, output)
        if not violations:
            return attempt
        first = violations[0]
        detail = f"expected output_data to fit output_spec, got at {first.pointer or '/'}: "
        rejected = replace(
            attempt.response,
            status=InvocationStatus.ERROR,
            output_data=None,
            error_detail=clean_detail(detail + first.detail),
        )
        return Attempt(
            response=rejected,
            reason=MISFIT,
            raw=cut_raw(canonical_bytes(output)),
            stderr=attempt.stderr,
        )

    async def aclose(self) -> None:
        """Close the adapter behind."""
        await self._adapter.aclose()


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
