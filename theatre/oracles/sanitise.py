"""What a construct is sent instead of the text that other people wrote (contract/construct.md).

It takes hidden channels away and breaks the markers of chat formats. It reduces injection; it
does not promise to stop it: instructions in plain words are data, and stay.

Pure and total for JSON values, idempotent, versioned. `unicodedata` decides nothing that could
differ between two supported Pythons; see `theatre.oracles.sanitise_text`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_sha256
from theatre.oracles.errors import SanitisePolicyError
from theatre.oracles.sanitise_tables import TABLES_SHA256
from theatre.oracles.sanitise_text import clean_text

SANITISER = "theatre-sanitise/1.0.0"

# Record what a reader can use; the rest can be had by running the sanitiser again.
_MAX_FIELDS_LISTED = 100
_MAX_POINTER = 1000

_Path: TypeAlias = "tuple[_Path, str | int] | None"
_RawTree: TypeAlias = "dict[str | None, _RawTree]"


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitisePolicy:
    """What is done about role markers, and which fields are left as they are.

    `role_markers`: `break` puts a middle dot after a marker's first character, `flag` counts
    only. `raw_fields` are JSON pointers (RFC 6901); everything below one is left alone, and one
    that leads nowhere in a value is no error. Raises SanitisePolicyError for anything else.
    """

    role_markers: Literal["break", "flag"] = "break"
    raw_fields: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the pointers."""
        for pointer in self.raw_fields:
            unescaped = pointer.replace("~0", "").replace("~1", "")
            if (pointer and not pointer.startswith("/")) or "~" in unescaped:
                raise SanitisePolicyError(
                    f"expected a JSON pointer, as /description, got {pointer!r:.100}"
                )


_DEFAULT_POLICY = SanitisePolicy()


@dataclass(frozen=True, slots=True)
class FieldEdit:
    """One changed (or flagged) text: its JSON pointer, cut at 1,000 characters, and counts."""

    path: str
    counts: Mapping[str, int]

    def as_document(self) -> JsonObject:
        """Return the form that the evidence keeps."""
        return {"path": self.path, "counts": dict(self.counts)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sanitised:
    """What the sanitiser made of one value.

    `value` is `raw` itself where nothing changed. `edits` lists the first 100 of
    `fields_changed` texts, in the order of sorted keys; `counts` sums up all of them, by the
    classes of `CleanText`. `wrong_keys` are pointers of members whose names would have to
    change: a name is not data, so such a value must not be sent at all.
    """

    raw: JsonValue
    value: JsonValue
    policy: SanitisePolicy
    edits: tuple[FieldEdit, ...]
    fields_changed: int
    counts: Mapping[str, int]
    wrong_keys: tuple[str, ...]

    @property
    def raw_sha256(self) -> str:
        """Return the hash of the value's canonical bytes; errors as `canonical_bytes`."""
        return canonical_sha256(self.raw)

    @property
    def sent_sha256(self) -> str:
        """Return the hash of the canonical bytes of what is sent; errors as `canonical_bytes`."""
        return canonical_sha256(self.value)

    def record(self) -> JsonObject:
        """Return what the evidence keeps: enough to see what changed and to do it again."""
        raw_sha256 = self.raw_sha256
        return {
            "sanitiser_version": SANITISER,
            "tables_sha256": TABLES_SHA256,
            "role_markers": self.policy.role_markers,
            "raw_fields": list(self.policy.raw_fields),
            "raw_sha256": raw_sha256,
            "sent_sha256": raw_sha256 if self.value is self.raw else self.sent_sha256,
            "counts": dict(sorted(self.counts.items())),
            "fields_changed": self.fields_changed,
            "fields": [edit.as_document() for edit in self.edits],
            "wrong_keys": list(self.wrong_keys),
        }


def sanitise(value: JsonValue, policy: SanitisePolicy = _DEFAULT_POLICY) -> Sanitised:
    """Return `value` with every text in it cleaned; look at `wrong_keys` before it is sent."""
    return _Walk(policy).over(value)


class _Walk:
    """One pass over one value. It keeps its own stack: depth is the other side's choice."""

    def __init__(self, policy: SanitisePolicy) -> None:
        self._policy = policy
        self._break_markers = policy.role_markers == "break"
        self._edits: list[FieldEdit] = []
        self._fields_changed = 0
        self._changed = False
        self._counts: Counter[str] = Counter()
        self._wrong_keys: list[str] = []
        self._judged_keys: dict[str, bool] = {}

    def over(self, value: JsonValue) -> Sanitised:
        built: list[JsonValue] = [None]
        stack: list[tuple[JsonValue, list[JsonValue] | JsonObject, str | int, _Path, _RawTree]]
        stack = [(value, built, 0, None, _raw_tree(self._policy.raw_fields))]
        while stack:
            item, home, place, path, raw = stack.pop()
            if None in raw:
                home[place] = item  # type: ignore[index,call-overload]  # a key for a dict, an index for a list
        return Sanitised(
            raw=value,
            value=built[0] if self._changed else value,
            policy=self._policy,
            edits=tuple(self._edits),
            fields_changed=self._fields_changed,
            counts=dict(self._counts),
            wrong_keys=tuple(self._wrong_keys),
        )
