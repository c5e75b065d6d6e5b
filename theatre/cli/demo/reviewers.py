"""Two stand-ins for the people who score taste, for the demo and for tests.

They are small rules and no people, and their names say so. Each looks at the brief and at the
answer as anybody does who scores, and at nothing else. What they look at: fixtures/ratings/README.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from theatre.engine.canonical_json import canonical_line
from theatre.engine.replay import RatingItem, SubmittedScore

LOWEST, HIGHEST = 1.0, 5.0

_HALF, _ONE = 0.5, 1.0
_GLANCED_AT = ("poster", "signage", "post", "story")
_FEW_WORDS, _MANY_WORDS = 9, 15
_LARGE_TEXT, _SMALL_TEXT = 18, 15
# WCAG 2: 4.5 is enough for text, 7 is good, 3 is enough for anything large.
_ENOUGH, _GOOD, _STANDS_OUT = 4.5, 7.0, 3.0
_LINEAR_UP_TO = 0.04045
_LOUD = frozenset(
    {"colour/neon", "motion/pulse", "shape/girder", "tone/rousing", "typography/placard"}
)
_LOST_ON_CHILDREN = frozenset({"tone/ceremonial", "tone/wry"})
_COLOUR = re.compile(r"#[0-9A-Fa-f]{6}")

Points = dict[str, float]
"""What speaks for and against an item, in words → points."""


def reads_from_afar(item: RatingItem) -> Points:
    """Return what demo-reviewer-a sees: whether it can be read where people meet it."""
    brief = _object(item.input_data.get("brief"))
    tokens, sheet = _answer(item, "artisan", "tokens"), _answer(item, "mint", "sheet")
    ground, ink, accent = (tokens.get(f"colours.{name}") for name in ("ground", "ink", "accent"))
    points: Points = {"begins in the middle": 3.0}
    lettering = contrast(ground, ink)
    if lettering is None:
        points["ground or lettering is left open"] = -_ONE
    elif lettering >= _GOOD:
        points["lettering stands off its ground"] = _ONE
    elif lettering < _ENOUGH:
        points["lettering sinks into its ground"] = -_ONE
    if (contrast(ground, accent) or 0) >= _STANDS_OUT:
        points["the accent draws the eye"] = _HALF
    size = tokens.get("typography.text_size")
    if isinstance(size, int | float):
        points[f"running text of {size}"] = _HALF * ((size >= _LARGE_TEXT) - (size <= _SMALL_TEXT))
    words = [n for name, n in sheet.items() if name.endswith(".words") and isinstance(n, int)]
    if words and brief.get("medium") in _GLANCED_AT:
        most = max(words)
        points[f"{most} words, at a glance"] = _HALF * ((most <= _FEW_WORDS) - (most > _MANY_WORDS))
    return points


def asks_who_decided(item: RatingItem) -> Points:
    """Return what demo-reviewer-b sees: whether it was decided and holds together."""
    brief, direction = _object(item.input_data.get("brief")), _answer(item, "artisan", "direction")
    wanted = {term for term in _array(direction.get("we_want")) if isinstance(term, str)}
    domains = {term.partition("/")[0] for term in wanted}
    points: Points = {f"{len(domains)} of eight domains are decided": 1 + len(domains) / 2}
    if not direction.get("we_avoid"):
        points["nothing is avoided"] = -_HALF
    if len(wanted & _LOUD) > 1:
        points["loud things shout each other down"] = -_ONE
    if brief.get("audience") == "children" and wanted & _LOST_ON_CHILDREN:
        points["its voice is lost on children"] = -_ONE
    overrides = _array(item.answers.get("artisan", {}).get("overrides"))
    if overrides:
        points["others have had their way"] = -_HALF * len(overrides)
    return points


REVIEWERS: Mapping[str, Callable[[RatingItem], Points]] = {
    "demo-reviewer-a": reads_from_afar,
    "demo-reviewer-b": asks_who_decided,
}


def demo_scores(reviewer: str, items: Iterable[RatingItem]) -> list[SubmittedScore]:
    """Return what one of REVIEWERS gives each item: from 1 to 5, by halves, with its reasons."""
    return [_score(item, REVIEWERS[reviewer](item)) for item in items]


def score_file(scores: Iterable[SubmittedScore]) -> bytes:
    """Return scores in the form of a file for `echelon theatre hitl ID --scores`."""
    return b"".join(
        canonical_line({"episode_id": one.episode_id, "score": one.score, "comment": one.comment})
        for one in scores
    )


def contrast(one: object, other: object) -> float | None:
    """Return the contrast ratio of two colours `#RRGGBB`, from 1 to 21; None where one is none.

    Source: WCAG 2, relative luminance.
    """
    levels = [_luminance(colour) for colour in (one, other)]
    if levels[0] is None or levels[1] is None:
        return None
    dark, light = sorted((levels[0], levels[1]))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: object) -> float | None:
    if not isinstance(colour, str) or not _COLOUR.fullmatch(colour):
        return None
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [c / 12.92 if c <= _LINEAR_UP_TO else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _score(item: RatingItem, points: Points) -> SubmittedScore:
    total = min(HIGHEST, max(LOWEST, sum(points.values())))
    reasons = "; ".join(f"{reason} ({worth:+g})" for reason, worth in points.items() if worth)
    return SubmittedScore(episode_id=item.episode_id, score=total, comment=reasons)


def _answer(item: RatingItem, construct: str, member: str) -> Mapping[str, Any]:
    return _object(item.answers.get(construct, {}).get(member))


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _array(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
