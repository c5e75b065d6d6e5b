"""The sanitiser as a run uses it: one policy an episode, one record of what it did."""

from __future__ import annotations

from typing import Literal, cast

from theatre.engine.canonical_json import JsonObject
from theatre.engine.oracle_contract import SanitisedInput
from theatre.oracles.sanitise import SANITISER, SanitisePolicy, sanitise


class TextSanitiser:
    """Cleans the text of an episode's input before a construct sees it."""

    @property
    def version(self) -> str:
        """Return name and version; the tables have their own digest in each record."""
        return SANITISER

    def sanitise(
        self,
        value: JsonObject,
        *,
        role_markers: Literal["break", "flag"],
        raw_fields: tuple[str, ...],
    ) -> SanitisedInput:
        """Return what is sent instead of `value`; SanitisePolicyError for no JSON pointer."""
        policy = SanitisePolicy(role_markers=role_markers, raw_fields=raw_fields)
        made = sanitise(value, policy)
        return SanitisedInput(
            value=cast("JsonObject", made.value), record=made.record(), wrong_keys=made.wrong_keys
        )
