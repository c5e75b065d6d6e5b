"""`provenance_chain`: whether an append-only log of provenance records is one intact hash chain.

Each line is a record `{id, prev_hash, hash, timestamp, …}`: `hash` is the SHA-256 over the
canonical JSON of the record without it, `prev_hash` the `hash` of the line before, 64 zeros in
the first. A chain cannot show that its tail was cut off, nor that all of it was rewritten:
the committed hash of the dataset does, and `head` names the end that was seen.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import cast

from theatre.engine.audit_chain import GENESIS
from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object
from theatre.engine.errors import ParseError
from theatre.engine.models import MAX_EPISODE_BYTES, Computation, ScorerKind
from theatre.engine.scoring.provider import at_path
from theatre.scorers.agreement import parse_moment
from theatre.scorers.hash_chain import record_hash
from theatre.scorers.record_completeness import is_filled

MAX_RECORD_BYTES = MAX_EPISODE_BYTES


class Fault(StrEnum):
    """What can be wrong with a line, in the order in which the first is named."""

    UNREADABLE = "unreadable"
    INCOMPLETE = "incomplete"
    HASH = "hash"
    PREV_HASH = "prev_hash"
    ID = "id"
    TIMESTAMP = "timestamp"


def compute(lines: Iterable[bytes], params: JsonObject) -> JsonObject:
    """Return the result of a log of provenance records, streaming; never raises.

    `required` names members that every record must fill. The result: `records` (lines),
    `intact` (at least one record, and no fault), `first_broken_line` (from 1) and its
    `first_fault`, both null where there is none, `faults` (lines by fault: `unreadable` JSON,
    a required member not filled, a `hash` that does not recompute, a `prev_hash` that is not
    the line before's `hash`, an `id` that is no string or came before, a `timestamp` that is
    no RFC 3339 UTC time or before the line before's) and `head` (the last `hash`; null unless
    intact).
    """
    required = cast("list[str]", params.get("required", []))
    faults: JsonObject = dict.fromkeys((fault.value for fault in Fault), 0)
    log, records, first = _Log(), 0, None
    for records, line in enumerate(lines, start=1):
        found = log.append(line, required)
        for fault in found:
            faults[fault] = cast("int", faults[fault]) + 1
        if found and first is None:
            first = records, found[0]
    intact = records > 0 and first is None
    return {
        "records": records,
        "intact": intact,
        "first_broken_line": first[0] if first else None,
        "first_fault": first[1].value if first else None,
        "faults": faults,
        "head": log.head if intact else None,
    }


@dataclass(slots=True)
class _Log:
    """What the lines read so far leave to compare the next one with."""

    head: JsonValue = GENESIS
    latest: datetime | None = None
    ids: set[str] = field(default_factory=set)

    def append(self, line: bytes, required: Sequence[str]) -> list[Fault]:
        """Take the next line; return what is wrong with it, in the order of `Fault`."""
        try:
            record = parse_object(line, max_bytes=MAX_RECORD_BYTES)
        except ParseError:
            # Nothing is known that the next line could name.
            self.head = None
            return [Fault.UNREADABLE]
        previous, self.head = self.head, record.get("hash")
        holds = {
            Fault.INCOMPLETE: all(is_filled(at_path(record, path)) for path in required),
            Fault.HASH: self.head == record_hash(record),
            Fault.PREV_HASH: previous is not None and record.get("prev_hash") == previous,
            Fault.ID: self._is_new(record.get("id")),
            Fault.TIMESTAMP: self._is_next(parse_moment(record.get("timestamp"))),
        }
        return [fault for fault, held in holds.items() if not held]

    def _is_new(self, record_id: JsonValue) -> bool:
        if not isinstance(record_id, str) or not record_id or record_id in self.ids:
            return False
        self.ids.add(record_id)
        return True

    def _is_next(self, at: datetime | None) -> bool:
        if at is None:
            return False
        earlier, self.latest = self.latest, at
        return earlier is None or earlier <= at


COMPUTATION = Computation(
    name="provenance_chain",
    version="1",
    kind=ScorerKind.EXACT,
    params_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "required": {
                "type": "array",
                "items": {"type": "string", "minLength": 1},
                "minItems": 1,
                "uniqueItems": True,
            }
        },
    },
    compute=compute,
)
