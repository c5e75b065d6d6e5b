"""One entry of the trail about a person's score: whether it could stand there, and what it gives.

Source: docs/evidence.md, "Human scores" and "The audit trail".
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from theatre.engine.bundle_check.commitment.rubrics import CommittedRubric
from theatre.engine.bundle_check.reading.json_values import (
    DefectError,
    Nothing,
    at,
    require_same,
    shown,
)
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_json
from theatre.engine.clock import parse_rfc3339
from theatre.engine.errors import ClockError

OFF_SCALE = "score-off-scale"
NO_NUMBER = "score-not-a-number"
IS_AUTHOR = "scorer-is-author"
REFUSALS = frozenset(
    {
        OFF_SCALE,
        NO_NUMBER,
        IS_AUTHOR,
        "not-an-item",
        "item-already-scored",
        "identity-empty",
        "identity-unreadable",
        "comment-unreadable",
        "step-not-open",
    }
)
"""Why a score may be refused (docs/evidence.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one rating asks of whom; `authors` are identities, `opened_at` as the trail has it."""

    rubric: CommittedRubric
    items: Sequence[str]
    authors: frozenset[str]
    opened_at: JsonValue | Nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenScore:
    """A score that may stand: whose, for what, and the number as it was written."""

    identity: str
    episode_id: str
    score: float


def identity(name: str) -> str:
    """Return whose name it is: names of the same person in any case and Unicode form are one."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name.strip()).casefold())


def seconds_between(earlier: JsonValue | Nothing, later: JsonValue | Nothing) -> float:
    """Return the seconds from one time to another. Raises DefectError for what is no time."""
    try:
        moments = [parse_rfc3339(one if isinstance(one, str) else "") for one in (earlier, later)]
    except ClockError as error:
        raise DefectError("two times in RFC 3339", f"{shown(earlier)}, {shown(later)}") from error
    return (moments[1] - moments[0]).total_seconds()


def given_score(entry: JsonObject, asked: Asked) -> GivenScore:
    """Return the score in an entry `human_score`. Raises DefectError for one that may not count."""
    detail, rubric = at(entry, "detail"), asked.rubric
    scorer, score = at(detail, "scorer"), at(detail, "score")
    require_same("step_id", rubric.step_id, at(detail, "step_id"))
    if not isinstance(scorer, str) or not scorer or scorer != _trimmed(scorer):
        raise DefectError("scorer as a name, trimmed and in NFC", shown(scorer))
    if rubric.scorer_must_not_be_author and identity(scorer) in asked.authors:
        raise DefectError("no scorer who is an author", shown(scorer))
    item = at(detail, "episode_id")
    if item not in asked.items:
        raise DefectError("a score for an item of the step", shown(item))
    if not _on_scale(score, rubric):
        ends = f"{canonical_json(float(rubric.low))} to {canonical_json(float(rubric.high))}"
        raise DefectError(f"score as a number from {ends}", shown(score))
    comment = at(detail, "comment")
    if comment is not None and not isinstance(comment, str):
        raise DefectError("comment as text or null", shown(comment))
    if rubric.timeout_seconds is not None:
        waited = seconds_between(asked.opened_at, at(entry, "at"))
        if waited >= rubric.timeout_seconds:
            raise DefectError(
                f"a score within {rubric.timeout_seconds} s of the opening", f"{waited} s"
            )
    return GivenScore(
        identity=identity(scorer), episode_id=cast("str", item), score=cast("float", score)
    )


def check_refused(entry: JsonObject, asked: Asked) -> None:
    """Raise DefectError for a refusal that has no reason, or one that the score itself denies.

    An episode_id denies nothing: that of no item may be one once it was cleaned.
    """
    detail = at(entry, "detail")
    code, score, scorer = at(detail, "code"), at(detail, "score"), at(detail, "scorer")
    if not isinstance(code, str) or code not in REFUSALS:
        raise DefectError(f"code as one of {', '.join(sorted(REFUSALS))}", shown(code))
    if not _is_number(score) and not isinstance(score, str):
        raise DefectError("score as a number or a text", shown(score))
    for name in ("step_id", "scorer", "episode_id"):
        if not isinstance(at(detail, name), str):
            raise DefectError(f"{name} of a refused score as text", shown(at(detail, name)))
    denied = {
        OFF_SCALE: not _is_number(score) or _on_scale(score, asked.rubric),
        NO_NUMBER: _is_number(score),
        IS_AUTHOR: not asked.rubric.scorer_must_not_be_author
        or identity(cast("str", scorer)) not in asked.authors,
    }
    if denied.get(code, False):
        raise DefectError(f"a score that is refused as {code} for that", shown(detail))


def _trimmed(name: str) -> str:
    return unicodedata.normalize("NFC", name.strip())


def _is_number(value: JsonValue | Nothing) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _on_scale(score: JsonValue | Nothing, rubric: CommittedRubric) -> bool:
    return _is_number(score) and 0 <= rubric.scaled(cast("float", score)) <= 1
