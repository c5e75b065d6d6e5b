"""Cases for scorers, and JSON that no strict parser would let in."""

from hypothesis import strategies as st

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import Scorer, ScoringCase

_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**53, 10**400])
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.sampled_from(["", " ", "\ud800", "2026-05-12T08:14:12Z", "2026-05-12T08:14:12.5Z"])
)

HOSTILE_JSON: st.SearchStrategy[JsonValue] = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(
            st.sampled_from(
                ["a", "id", "hash", "label", "quote", "quotes", "content", "record_id", "\ud800"]
            ),
            inner,
            max_size=5,
        )
        | st.fixed_dictionaries({"confidence": st.floats(-0.5, 1.5) | inner, "label": inner})
    ),
    max_leaves=12,
)
"""Values of every JSON type, with NaN, infinities, huge integers and half surrogate pairs."""

PLAIN_JSON: st.SearchStrategy[JsonValue] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(0, 3)
    | st.sampled_from([0.0, 1.0, 2.5])
    | st.text("abé😀", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)
"""Values of every JSON type, few enough of each that equal ones meet."""


def case_of(
    params: JsonObject,
    answer: JsonValue,
    *,
    expected: JsonValue = None,
    input_data: JsonObject | None = None,
) -> ScoringCase:
    """Return the case that the engine would build of resolved values."""
    return ScoringCase(
        input_data=input_data or {}, expected=expected, answer=answer, params=params, hops={}
    )


def number(scorer: Scorer, case: ScoringCase) -> float:
    """Return what `scorer` gives, which must be a number."""
    value = scorer.score(case)
    assert value is not None
    return value
