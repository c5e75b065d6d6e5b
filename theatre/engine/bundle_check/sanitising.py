"""What a construct was sent in place of the dataset's text, recomputed.

Source: docs/contract/evidence.md §7.

The sanitiser is the installed one, given by the caller as scorers are: one of another version
than the recorded one makes the check unavailable, and what needs no sanitiser is still checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol

from theatre.engine.bundle_check.json_values import NOTHING, Nothing, at, render, same_json
from theatre.engine.bundle_check.recorded import Recorded
from theatre.engine.bundle_check.report import Cause, CheckId, Ledger
from theatre.engine.bundle_check.steps import RoleMarkers, SanitisePolicy
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_sha256
from theatre.engine.models import GroundTruthEpisode

_IDENTITY = ("sanitiser_version", "tables_sha256")
_MEMBERS = frozenset(
    {
        *_IDENTITY,
        "role_markers",
        "raw_fields",
        "raw_sha256",
        "sent_sha256",
        "counts",
        "fields_changed",
        "fields",
        "wrong_keys",
    }
)


class SanitisedInput(Protocol):
    """What a sanitiser makes of one input. Nothing may be sent where `wrong_keys` names any."""

    @property
    def value(self) -> JsonObject:
        """Return what is sent."""

    @property
    def record(self) -> JsonObject:
        """Return what the evidence keeps of it."""

    @property
    def wrong_keys(self) -> tuple[str, ...]:
        """Return pointers to members whose names would have to change."""


class InputSanitiser(Protocol):
    """The installed sanitiser: pure, total for JSON objects, versioned."""

    @property
    def version(self) -> str:
        """Return name and version, as `theatre-sanitise/1.0.0`."""

    def sanitise(
        self, value: JsonObject, *, role_markers: RoleMarkers, raw_fields: tuple[str, ...]
    ) -> SanitisedInput:
        """Return what must be sent in place of `value`."""


@dataclass(frozen=True, slots=True)
class SentInput:
    """The input that a chain must have got, and whether it could be sent at all."""

    value: JsonValue
    sendable: bool = True


class SanitisingCheck:
    """Makes the check `sanitised-input`, record by record."""

    def __init__(
        self, policy: SanitisePolicy | None, sanitiser: InputSanitiser | None, ledger: Ledger
    ) -> None:
        self._policy = policy
        self._sanitiser = sanitiser
        self._ledger = ledger
        self._installed = _identity_of(sanitiser)
        self._recorded: list[JsonValue] = []
        self._records = 0

    @property
    def version(self) -> JsonValue | Nothing:
        """Return the sanitiser that the records name: null for none, NOTHING where none does."""
        return None if self._policy is None else at(self._recorded, 0)

    def sent(self, record: Recorded, episode: GroundTruthEpisode, where: str) -> SentInput:
        """Check what `record` says was sent against `episode`; return what the calls must hold."""
        self._records += 1
        policy, seen = self._policy, at(record.document, "sanitised")
        if policy is None:
            sent = SentInput(episode.input_data)
            self._compare(where, "sanitised", None, seen)
        elif self._is_another(seen, where) or self._sanitiser is None:
            sent = self._read_recorded(policy, record, episode, where)
        else:
            sent = self._recompute(policy, self._sanitiser, seen, episode, where)
        self._check_calls(record, sent, where)
        return sent

    def finish(self) -> None:
        """Complete the check, all records seen."""
        summary = "none was committed"
        if self._policy is not None:
            summary = f"{self._records} inputs by {render(self.version)}"
        self._ledger.completed(CheckId.SANITISED_INPUT, summary)

    def _is_another(self, seen: JsonValue | Nothing, where: str) -> bool:
        """Return whether a record names a sanitiser that is not the installed one.

        Every record must name the same; one that names none is checked against the installed.
        """
        named = [value for value in map(partial(at, seen), _IDENTITY) if isinstance(value, str)]
        if len(named) != len(_IDENTITY):
            return False
        found: list[JsonValue] = [*named]
        self._recorded = self._recorded or found
        self._compare(where, "the sanitiser of all records", self._recorded, found)
        if named == self._installed:
            return False
        installed = " ".join(self._installed or ("none",))
        text = f"sanitiser {' '.join(named)} is recorded and {installed} installed"
        self._ledger.cannot(CheckId.SANITISED_INPUT, Cause(text, unavailable=True))
        return True

    def _recompute(
        self,
        policy: SanitisePolicy,
        sanitiser: InputSanitiser,
        seen: JsonValue | Nothing,
        episode: GroundTruthEpisode,
        where: str,
    ) -> SentInput:
        made = sanitiser.sanitise(
            episode.input_data, role_markers=policy.role_markers, raw_fields=policy.raw_fields
        )
        self._compare(where, "sanitised", made.record, seen)
        return SentInput(made.value, sendable=not made.wrong_keys)

    def _read_recorded(
        self, policy: SanitisePolicy, record: Recorded, episode: GroundTruthEpisode, where: str
    ) -> SentInput:
        """Check what needs no sanitiser; take the input that the record itself holds."""
        first = record.calls[0] if record.calls else NOTHING
        seen, value = at(record.document, "sanitised"), _episode_input(first)
        value = episode.input_data if isinstance(value, Nothing) else value
        needed: JsonObject = {
            "role_markers": policy.role_markers,
            "raw_fields": list(policy.raw_fields),
            "raw_sha256": canonical_sha256(episode.input_data),
            "sent_sha256": canonical_sha256(value),
        }
        members = seen.keys() if isinstance(seen, dict) else set()
        self._compare(where, "its members", [*sorted(_MEMBERS)], [*sorted(members)])
        for name, expected in needed.items():
            self._compare(where, f"sanitised/{name}", expected, at(seen, name))
        return SentInput(value, sendable=at(seen, "wrong_keys") == [])

    def _check_calls(self, record: Recorded, sent: SentInput, where: str) -> None:
        """Require of each call that its text is the sanitised one exactly if it says so."""
        for call in record.calls:
            flag = at(call, "request", "metadata", "sanitised")
            self._compare(where, "metadata/sanitised", self._policy is not None, flag)
            if self._policy is not None:
                self._compare(where, "the sanitised input", sent.value, _episode_input(call))

    def _compare(
        self, where: str, what: str, expected: JsonValue | Nothing, seen: JsonValue | Nothing
    ) -> None:
        self._ledger.compare(CheckId.SANITISED_INPUT, f"{where}: {what}", expected, seen)


def _identity_of(sanitiser: InputSanitiser | None) -> list[str] | None:
    """Return version and tables of the installed sanitiser, as its records spell them."""
    if sanitiser is None:
        return None
    record = sanitiser.sanitise({}, role_markers="break", raw_fields=()).record
    return [str(record[name]) for name in _IDENTITY]


def _episode_input(call: JsonValue | Nothing) -> JsonValue | Nothing:
    """Return the episode's input in a call, wherever its hop has it."""
    data = at(call, "request", "input_data")
    return data if same_json(at(call, "hop"), 0) else at(data, "episode")
