"""What an invocation record says, read without trust: the first round, its answer, the repeat.

Here nothing is judged: what is missing or misshapen is NOTHING, and the checks say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from theatre.engine.bundle_check.folder import BundleFolder, canonical_object
from theatre.engine.bundle_check.json_values import NOTHING, DefectError, Nothing, at, same_json
from theatre.engine.bundle_check.report import CheckId, Ledger
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import EPISODE_RESULT, FIRST, JUDGEMENTS, SECOND, InvocationStatus

STATUSES = frozenset(status.value for status in InvocationStatus)
MOCK = "mock"
SOURCES = ("computed", "claimed")

PART_SIZE = 1000
_EPISODE = re.compile(r"invocations/episode_(\d{6,})\.json", re.ASCII)
_PART = re.compile(r"invocations/part-(\d{5,})\.jsonl", re.ASCII)
_MAX_DIGITS = 15


class Recorded:
    """One record, taken apart once: its calls by round, and the answer that they led to."""

    __slots__ = ("answering", "calls", "document", "first", "outputs", "repeated", "status")

    def __init__(self, document: JsonObject) -> None:
        self.document = document
        calls = document.get("calls")
        self.calls: list[JsonValue] = calls if isinstance(calls, list) else []
        """All calls in order; none where the record holds no array of them."""
        self.first = [call for call in self.calls if _is_of(call, FIRST)]
        self.repeated = [call for call in self.calls if _is_of(call, SECOND)]
        self.answering: JsonValue | Nothing = self.first[-1] if self.first else NOTHING
        """The call whose answer is the episode's: the last one of the first round."""
        self.status = at(last_attempt(self.answering), "response", "status")
        played = document.get(EPISODE_RESULT, NOTHING)
        self.outputs = _outputs(self.first) if played is NOTHING else _objects([played])
        """Those of the first round, up to the first call that did not succeed.

        Of an interactive episode: what its runner made of it, in the place of its one output.
        """

    @property
    def judgements(self) -> dict[str, list[JsonObject]]:
        """Return criterion → exchanges, of those that are objects."""
        judgements = self.document.get(JUDGEMENTS)
        return {
            criterion: _objects(exchanges if isinstance(exchanges, list) else [])
            for criterion, exchanges in (judgements.items() if isinstance(judgements, dict) else ())
        }

    @property
    def differs(self) -> bool:
        """Return whether it was asked a second time and not answered the same at every hop."""
        if not self.repeated:
            return False
        return not same_json([*self.outputs], [*_outputs(self.repeated)])


def last_attempt(call: JsonValue | Nothing) -> JsonValue | Nothing:
    """Return the attempt that a call ended with."""
    return at(call, "attempts", -1)


def _is_of(call: JsonValue, repeat: int) -> bool:
    """Return whether a call is of one round: 0 and 0.0 are the same JSON value, false is not."""
    number = call.get("repeat") if isinstance(call, dict) else None
    return isinstance(number, (int, float)) and number == repeat and not isinstance(number, bool)


def _outputs(calls: Sequence[JsonValue]) -> list[JsonObject]:
    outputs: list[JsonObject] = []
    for call in calls:
        response = at(last_attempt(call), "response")
        output = at(response, "output_data")
        if at(response, "status") != "success" or not isinstance(output, dict):
            break
        outputs.append(output)
    return outputs


def _objects(values: Sequence[JsonValue | Nothing]) -> list[JsonObject]:
    return [value for value in values if isinstance(value, dict)]


def is_mock(adapter: JsonValue) -> bool:
    """Return whether an adapter's pin is no text, or that of canned answers."""
    return not isinstance(adapter, str) or adapter.partition("@")[0] == MOCK


@dataclass(slots=True)
class CallFacts:
    """Facts of the episodes that were run; what was discarded counts in nothing else.

    `adapters` maps each construct that was called to its adapter in the newest record,
    `version_mismatches` counts calls, `determinism_differences` episodes.
    """

    recorded: int = 0
    discarded: int = 0
    version_mismatches: int = 0
    determinism_differences: int = 0
    adapters: dict[str, str] = field(default_factory=dict)
    rehearsal: bool = False
    claimed: bool = False

    @property
    def version_source(self) -> str:
        """Return what the certificate must say: one claimed version makes all of them claimed."""
        return SOURCES[self.claimed]

    def note(self, record: Recorded) -> None:
        """Take the facts of one record, as far as it has them."""
        self.recorded += 1
        self.determinism_differences += record.differs
        for call in record.calls:
            self._note_call(call)

    def _note_call(self, call: JsonValue) -> None:
        attempts, construct = at(call, "attempts"), at(call, "construct_id")
        self.version_mismatches += isinstance(attempts, list) and any(
            at(attempt, "reason") == "version-mismatch" for attempt in attempts
        )
        adapter = at(call, "adapter")
        if isinstance(adapter, str):
            self.rehearsal |= is_mock(adapter)
            if isinstance(construct, str):
                self.adapters[construct] = adapter
        self.claimed |= at(call, "version_source") == "claimed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordItem:
    """One record: where it lies, the episode of that place, its bytes, and what they parse to."""

    where: str
    position: int
    raw: bytes
    record: Recorded | None


def stored_records(folder: BundleFolder, total: int | None, ledger: Ledger) -> Iterator[RecordItem]:
    """Yield every record by ascending position; `total` is the number of episodes, if known.

    Files of the wrong layout, and what cannot be read, go to `invocations`.
    """
    episodes, parts = _list_numbered(folder, _EPISODE), _list_numbered(folder, _PART)
    in_parts = bool(parts) if total is None else total > PART_SIZE
    for _, path in episodes if in_parts else parts:
        layout = f"parts of {PART_SIZE} records" if in_parts else "a file for each record"
        ledger.wrong(CheckId.INVOCATIONS, f"{layout} in invocations", f"also {path}")
    for number, path in parts if in_parts else episodes:
        try:
            if in_parts:
                yield from _of_part(folder, number, path, ledger)
            else:
                yield _item(folder.read(path), path, number, ledger)
        except DefectError as defect:
            ledger.wrong(CheckId.INVOCATIONS, defect.expected, defect.actual)


def _list_numbered(folder: BundleFolder, pattern: re.Pattern[str]) -> list[tuple[int, str]]:
    """Return the files of one layout by number; only the one spelling of a number counts."""
    found = []
    for path in folder.files:
        match = pattern.fullmatch(path)
        if match is None or len(match[1]) > _MAX_DIGITS:
            continue
        width = 6 if pattern is _EPISODE else 5
        if match[1] == f"{int(match[1]):0{width}d}":
            found.append((int(match[1]), path))
    return sorted(found)


def _of_part(folder: BundleFolder, number: int, path: str, ledger: Ledger) -> Iterator[RecordItem]:
    for line, raw in enumerate(folder.lines(path), start=1):
        if line > PART_SIZE:
            raise DefectError(f"{path} with at most {PART_SIZE} lines", "more")
        position = (number - 1) * PART_SIZE + line
        yield _item(raw, f"{path} line {line}", position, ledger)


def _item(raw: bytes, where: str, position: int, ledger: Ledger) -> RecordItem:
    record: Recorded | None = None
    try:
        record = Recorded(canonical_object(raw, where, ledger))
    except DefectError as defect:
        ledger.wrong(CheckId.INVOCATIONS, defect.expected, defect.actual)
    return RecordItem(where=where, position=position, raw=raw, record=record)
