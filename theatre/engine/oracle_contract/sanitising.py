"""What a run needs of a sanitiser; the one that ships is in `theatre.oracles.sanitise`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from theatre.engine.canonical_json import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitisedInput:
    """An episode's input, made safe to be sent: `value`, and the `record` that evidence keeps.

    `wrong_keys` are pointers to members whose names would have to change. Names are never
    changed silently: an input that has any is not sent.
    """

    value: JsonObject
    record: JsonObject
    wrong_keys: tuple[str, ...]


class InputSanitiser(Protocol):
    """A pure, versioned function over inputs (docs/contract/construct.md §7)."""

    @property
    def version(self) -> str:
        """Return `name/version`, as the evidence keeps it."""

    def sanitise(
        self,
        value: JsonObject,
        *,
        role_markers: Literal["break", "flag"],
        raw_fields: tuple[str, ...],
    ) -> SanitisedInput:
        """Return what is sent instead of `value`, and what was changed."""
