"""`paired_separation`: shares, paired difference, exact test and ranking over pairs of verdicts."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.scoring.differences import auroc, mcnemar, mean_difference
from theatre.scorers.computations.paired_separation import COMPUTATION

# The differences that it publishes are the engine's.

PARAMS: JsonObject = {
    "first": "honest",
    "second": "pseudo",
    "verdicts_at": "passed",
    "verdicts": ["all", "P5"],
    "score": "failed",
}


def side(*, passes: JsonValue, failed: JsonValue = 0) -> JsonObject:
    return {"passed": {"all": passes, "P5": True}, "failed": failed}


def line(number: int, *sides: JsonObject) -> bytes:
    hops: JsonObject = {}
    if sides:
        hops = {"axion.honest": dict(zip(("honest", "pseudo"), sides, strict=False))}
    return canonical_bytes(
        {
            "episode_id": f"pair-{number}",
            "input_data": {},
            "expected_output": None,
            "label": None,
            "outcome": "scored" if sides else "missing",
            "hops": hops,
        }
    )


def computed(*lines: bytes) -> Any:  # noqa: ANN401 - a document
    return COMPUTATION.compute(lines, PARAMS)


def test_it_is_what_the_pairs_say() -> None:
    found = computed(
        line(1, side(passes=True), side(passes=False, failed=2)),
        line(2, side(passes=True), side(passes=False, failed=3)),
        line(3, side(passes=True), side(passes=True, failed=0)),
        line(4, side(passes=False, failed=1), side(passes=False, failed=1)),
    )
    assert (found["episodes"], found["verdicts"]["all"]["pairs"]) == (4, 4)
    whole = found["verdicts"]["all"]
    assert (whole["first"]["value"], whole["second"]["value"]) == (0.75, 0.25)
    assert whole["risk_difference"] == mean_difference({"a": [1], "b": [1], "c": [0], "d": [0]})
    assert whole["mcnemar"] == {"only_first": 2, "only_second": 0, "p_value": 0.5}
    # Of 16 pairs of a first and a second score 11 rank the second higher, 4 neither.
    assert found["auroc"] == (11 + 4 / 2) / 16
    assert found["verdicts"]["P5"]["risk_difference"]["value"] == 0


def test_what_came_to_nothing_is_no_pass_and_is_counted() -> None:
    found = computed(
        line(1, side(passes=None), side(passes=False)),
        line(2, side(passes=True), side(passes=None)),
    )
    whole = found["verdicts"]["all"]
    assert whole["inconclusive"] == {"first": 1, "second": 1}
    assert (whole["first"]["value"], whole["second"]["value"]) == (0.5, 0)


@pytest.mark.parametrize(
    "odd",
    [
        line(2),
        line(2, side(passes=True)),
        line(2, side(passes="PASS"), side(passes=True)),
        line(2, side(passes=1), side(passes=True)),
        line(2, {"passed": []}, {"passed": None}),
    ],
)
def test_an_episode_without_two_verdicts_is_no_pair(odd: bytes) -> None:
    found = computed(line(1, side(passes=True), side(passes=False)), odd)
    assert found["episodes"] == 2
    assert found["verdicts"]["all"]["pairs"] == 1


@pytest.mark.parametrize("score", [None, True, "2"])
def test_a_score_that_is_no_number_ranks_nobody(score: JsonValue) -> None:
    pairs = [line(1, side(passes=True, failed=score), side(passes=False, failed=3))]
    assert computed(*pairs)["auroc"] is None
    assert computed(*pairs, line(2, side(passes=True), side(passes=False, failed=1)))["auroc"] == 1


def test_of_no_episode_it_says_nothing() -> None:
    found = computed()
    assert (found["episodes"], found["auroc"]) == (0, None)
    assert found["verdicts"]["all"]["risk_difference"]["method"] == "undefined"
    assert found["verdicts"]["all"]["mcnemar"]["p_value"] == 1


def test_a_path_may_name_the_construct_that_answered() -> None:
    of_hop = {**PARAMS, "first": "axion.honest:honest", "second": "axion.honest:pseudo"}
    lines = [
        line(1, side(passes=True), side(passes=False)),
        line(2, side(passes=True), side(passes=False)),
    ]
    assert COMPUTATION.compute(lines, of_hop) == computed(*lines)


@pytest.mark.parametrize(
    "change",
    [{"verdicts": []}, {"verdicts": ["a", "a"]}, {"first": ""}, {"score": 1}, {"more": "x"}],
)
def test_params_that_say_nothing_are_refused(change: JsonObject) -> None:
    registry = SchemaRegistry()
    assert not list(registry.validate_inline(COMPUTATION.params_schema, PARAMS))
    assert list(registry.validate_inline(COMPUTATION.params_schema, {**PARAMS, **change}))


@given(pairs=st.lists(st.tuples(st.booleans(), st.booleans()), max_size=60))
def test_mcnemar_is_the_exact_binomial_test_of_scipy(pairs: Sequence[tuple[bool, bool]]) -> None:
    from scipy.stats import binomtest

    found: Any = mcnemar(pairs)
    odd = found["only_first"] + found["only_second"]
    expected = binomtest(found["only_first"], odd).pvalue if odd else 1.0
    assert found["p_value"] == pytest.approx(expected, rel=1e-9)


@given(
    negatives=st.lists(st.integers(0, 5), min_size=1, max_size=20),
    positives=st.lists(st.integers(0, 5), min_size=1, max_size=20),
)
def test_auroc_is_that_of_scikit_learn(negatives: list[int], positives: list[int]) -> None:
    from sklearn.metrics import roc_auc_score

    labels = [0] * len(negatives) + [1] * len(positives)
    assert auroc(negatives, positives) == pytest.approx(
        roc_auc_score(labels, negatives + positives), abs=1e-6
    )
    assert auroc([], positives) is None
