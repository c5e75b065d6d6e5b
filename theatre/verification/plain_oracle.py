"""Oracles that know no envelope: a bare record goes out, a bare OracleOutput comes back.

Source: docs/requirements.md R77.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict, TypeGuard

from theatre.engine.canonical_json import JsonObject, JsonValue, parse_json
from theatre.engine.errors import ParseError
from theatre.oracles.wire_forms import PlainForm

QUESTION = "follow_up_question"


class OracleOutput(TypedDict):
    """What an oracle says of one change: its summary, its claims, its answer to the question."""

    summary: str
    key_claims: list[JsonValue]
    follow_up_response: str
    metadata: NotRequired[JsonObject]


_OUTPUT = {"summary": str, "key_claims": list, "follow_up_response": str}


def bare_record(input_data: JsonObject) -> JsonObject:
    """Return what a plain oracle is sent: the record's own members, and the question."""
    record = input_data.get("record")
    return {
        **(record if isinstance(record, dict) else {}),
        QUESTION: input_data.get(QUESTION),
    }


def is_oracle_output(value: JsonValue) -> TypeGuard[OracleOutput]:
    """Tell whether an answer is a bare OracleOutput."""
    return isinstance(value, dict) and all(
        isinstance(value.get(name), kind) for name, kind in _OUTPUT.items()
    )


def is_raw_oracle_output(raw: str | None) -> bool:
    """Tell the same of an answer that was not accepted, as it came."""
    try:
        return raw is not None and is_oracle_output(parse_json(raw.encode()))
    except ParseError:
        return False


PLAIN_ORACLE = PlainForm(bare=bare_record)
