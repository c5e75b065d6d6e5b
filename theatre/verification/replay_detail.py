"""What stands behind the scores of one replay: how many claims and changes, and which claims held.

Recomputed from what is recorded, by the scoring that the template commits to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.rlmf_export import SealedEpisode
from theatre.engine.scoring.paths import at_path
from theatre.verification.change_facts import change_facts
from theatre.verification.lexical import (
    PRECISION,
    JudgedClaim,
    expected_changes,
    judged_claims,
    surfaced_changes,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayDetail:
    """The counts behind precision and recall of one answer; null where nothing was expected."""

    judged: Sequence[JudgedClaim]
    changes_total: int | None
    changes_surfaced: int | None

    @property
    def claims_supported(self) -> int:
        """Return how many of the judged claims held."""
        return sum(claim.supported for claim in self.judged)


DetailReader = Callable[[SealedEpisode, JsonObject], ReplayDetail | None]
"""Episode and `output_data` to detail; None where an answer has not the shape for it."""


def detail_reader(template: JsonObject) -> DetailReader | None:
    """Return the reader for the scoring of a template; None where single claims are not judged."""
    scorer = at_path(template, "scoring.criteria_scorers.precision.scorer")
    return _READERS.get(scorer) if isinstance(scorer, str) else None


def lexical_detail(episode: SealedEpisode, output: JsonObject) -> ReplayDetail | None:
    """Return what the scorers `lexical_precision` and `lexical_recall` counted."""
    claims, summary = output.get("key_claims"), output.get("summary")
    diff = at_path(episode.truth.input_data, "record.diff_content")
    if not isinstance(claims, list) or not isinstance(summary, str) or not isinstance(diff, str):
        return None
    expected = expected_changes(_important_changes(episode.truth.expected_output))
    return ReplayDetail(
        judged=judged_claims(claims, change_facts(diff)),
        changes_total=len(expected) or None,
        changes_surfaced=surfaced_changes(summary, expected) if expected else None,
    )


def _important_changes(expectation: JsonObject | None) -> JsonValue:
    return (expectation or {}).get("important_changes")


_READERS: Mapping[str, DetailReader] = {PRECISION.name: lexical_detail}
"""The scorer of precision → how its counts are read."""
