"""`paired_separation`: how far two constructs stand apart that played the same episodes.

Over `episodes` in which both were asked, so that the runner's result has verdicts of either. A pair
is one episode; the interval of the difference and the test are those for pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object
from theatre.engine.models import Computation, ScorerKind
from theatre.engine.scoring.differences import (
    Tally,
    auroc,
    mcnemar,
    mean_difference,
    share_of_pairs,
)
from theatre.engine.scoring.provider import Absent, answered_at
from theatre.scorers.agreement import PATH, closed_schema

_Hops: TypeAlias = Mapping[str, JsonObject]
_Verdicts: TypeAlias = Mapping[str, tuple[bool | None, bool | None]]


def compute(lines: Iterable[bytes], params: JsonObject) -> JsonObject:
    """Return how often each of two passes, and how far they are apart; never raises.

    `first` and `second` are paths of two members of the answer; `verdicts` name what is below
    `verdicts_at` in both of them: true, false, or null for what came to nothing, which is no
    pass. `score` is a number below both that is higher for a construct that is caught.

    The result: `episodes`; by each name of `verdicts` the `pairs` with two verdicts, how many of
    them were `inconclusive` for either, the share of either that passes, their
    `risk_difference` (first minus second), and the exact `mcnemar` test; `auroc`, the chance
    that a second scores above a first, null where no episode has both scores.
    """
    documents = [cast("dict[str, Any]", parse_object(line)) for line in lines]
    episodes = [(str(one["episode_id"]), cast("_Hops", one["hops"])) for one in documents]
    verdicts_at, names = str(params["verdicts_at"]), cast("list[str]", params["verdicts"])
    return {
        "episodes": len(episodes),
        "verdicts": {
            name: _separation(_verdicts(episodes, params, f"{verdicts_at}.{name}"))
            for name in names
        },
        "auroc": _auroc([hops for _, hops in episodes], params),
    }


def _both(hops: _Hops, params: JsonObject, below: str) -> tuple[JsonValue | Absent, ...]:
    return tuple(answered_at(f"{params[side]}.{below}", hops) for side in ("first", "second"))


def _verdicts(episodes: Sequence[tuple[str, _Hops]], params: JsonObject, below: str) -> _Verdicts:
    """Return the two verdicts of every episode that has two."""
    found = ((episode, _both(hops, params, below)) for episode, hops in episodes)
    return {
        episode: cast("tuple[bool | None, bool | None]", both)
        for episode, both in found
        if all(verdict is None or isinstance(verdict, bool) for verdict in both)
    }


def _separation(verdicts: _Verdicts) -> JsonObject:
    passes = {name: (one is True, other is True) for name, (one, other) in verdicts.items()}
    return {
        "pairs": len(verdicts),
        "inconclusive": {
            "first": sum(one is None for one, _ in verdicts.values()),
            "second": sum(other is None for _, other in verdicts.values()),
        },
        "first": share_of_pairs({name: Tally(one, 1) for name, (one, _) in passes.items()}),
        "second": share_of_pairs({name: Tally(other, 1) for name, (_, other) in passes.items()}),
        "risk_difference": mean_difference(
            {name: [int(one) - int(other)] for name, (one, other) in passes.items()}
        ),
        "mcnemar": mcnemar(list(passes.values())),
    }


def _auroc(all_hops: Sequence[_Hops], params: JsonObject) -> float | None:
    both = [_both(hops, params, str(params["score"])) for hops in all_hops]
    scored = [
        pair
        for pair in both
        # A boolean is no number.
        if all(isinstance(score, int | float) and not isinstance(score, bool) for score in pair)
    ]
    firsts = [cast("float", first) for first, _ in scored]
    return auroc(firsts, [cast("float", second) for _, second in scored])


COMPUTATION = Computation(
    name="paired_separation",
    version="1",
    kind=ScorerKind.EXACT,
    params_schema=closed_schema(
        {
            "first": PATH,
            "second": PATH,
            "verdicts_at": PATH,
            "verdicts": {"type": "array", "items": PATH, "minItems": 1, "uniqueItems": True},
            "score": PATH,
        },
        required=["first", "second", "verdicts_at", "verdicts", "score"],
    ),
    compute=compute,
)
