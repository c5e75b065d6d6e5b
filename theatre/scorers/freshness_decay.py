"""`freshness_decay`: how fresh the source is that an answer cites, by half-life."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from operator import itemgetter
from typing import cast

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import Scorer, ScorerKind, ScoringCase
from theatre.engine.scoring.arithmetic import exact
from theatre.engine.scoring.provider import Absent, at_path
from theatre.scorers.agreement import UNMEASURABLE, params_schema, parse_moment

_OWN_PARAMS: JsonObject = {
    "reference": {"type": "string", "minLength": 1},
    "half_life_seconds": {"type": "number", "exclusiveMinimum": 0},
}
_PLACES = Decimal("1e-9")
_NOTHING_LEFT = 64
"""Half-lives after which less than a billionth remains by far."""

# The last digits of `2.0 ** x` are those of the C library at hand; these are the same everywhere.
_DIGITS = Context(
    prec=40, rounding=ROUND_HALF_EVEN, Emin=-999999, Emax=999999, capitals=1, clamp=0, traps=[]
)
_LN_2 = _DIGITS.ln(2)


def score(case: ScoringCase) -> float:
    """Return 2^(-age / `half_life_seconds`), in [0, 1], half-even to nine places.

    age is from the time that the answer cites to the reference: the time at `reference` in
    the episode's input, or the expected one; never the wall clock. A cited time after the
    reference scores 0, and so does what is no RFC 3339 time in UTC. UNMEASURABLE where the
    reference is none.
    """
    path, stated = case.params.get("reference"), case.expected
    if isinstance(path, str):
        found = at_path(case.input_data, path)
        stated = None if isinstance(found, Absent) else found
    reference, cited = parse_moment(stated), parse_moment(case.answer)
    if reference is None:
        return UNMEASURABLE
    if cited is None or cited > reference:
        return 0.0
    return _freshness(cited, reference, case.params)


def _freshness(cited: datetime, reference: datetime, params: JsonObject) -> float:
    age = Fraction((reference - cited) // timedelta(microseconds=1), 1_000_000)
    return half_power(age / exact(cast("float", params["half_life_seconds"])))


def half_power(times: Fraction) -> float:
    """Return 2^-times for times ≥ 0, rounded half-even to nine places."""
    if times > _NOTHING_LEFT:
        return 0.0
    halvings = _DIGITS.divide(Decimal(times.numerator), Decimal(times.denominator))
    left = _DIGITS.exp(_DIGITS.minus(_DIGITS.multiply(halvings, _LN_2)))
    return float(_DIGITS.quantize(left, _PLACES))


def fresh_for_most(expectations: Sequence[JsonValue], params: JsonObject) -> JsonValue:
    """Return the expected time that scores most for all of them, of several the earliest."""
    times = [(moment, one) for one in expectations if (moment := parse_moment(one)) is not None]
    best, most, total, after = None, 0.0, 0.0, None
    # From the last one back: what a time scores for later ones fades alike for all of them.
    for moment, one in sorted(times, key=itemgetter(0), reverse=True):
        total = 1 + total * (1.0 if after is None else _freshness(moment, after, params))
        best, most, after = (one, total, moment) if total >= most else (best, most, moment)
    return best


SCORER = Scorer(
    name="freshness_decay",
    version="1",
    kind=ScorerKind.EXACT,
    params_schema={
        **params_schema(_OWN_PARAMS, required=("field", "half_life_seconds")),
        "oneOf": [{"required": ["reference"]}, {"required": ["expected"]}],
    },
    score=score,
    one_for_all=fresh_for_most,
    needs_expectation=False,
)
