"""What a qualification counts: rates by change, and an interval that holds the truth."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pytest

from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import QualificationError
from theatre.engine.scoring.differences import Tally
from theatre.engine.scoring.qualification import (
    LabelledRow,
    balanced_accuracy,
    counted_again,
    figures_of,
    qualification_document,
)

MEASURE: JsonObject = {
    "scorer": "mine", "version": "1", "kind": "textual", "params": {}, "threshold": 0.5,
}  # fmt: skip
TEXTS = "0" * 64


def row(claim: int, change: int, verdict: str, score: float | None, kind: str = "") -> LabelledRow:
    named = kind or ("plain" if verdict == "supported" else "plain_lie")
    return LabelledRow(
        claim_id=f"c{claim:04}", change_id=f"d{change:04}", verdict=verdict, kind=named, score=score
    )


def rows_of(scores: Callable[[int, bool], float | None], changes: int = 100) -> list[LabelledRow]:
    """Return two true claims and two lies about each change, scored by a rule."""
    return [
        row(4 * change + place, change, verdict, scores(change, verdict == "supported"))
        for change in range(changes)
        for place, verdict in enumerate(("supported", "supported", "contradicted", "half_true"))
    ]


def made(rows: Sequence[LabelledRow], **changes: Any) -> JsonObject:  # noqa: ANN401 - any member
    measure = MEASURE | changes
    return qualification_document(
        measure,
        rows,
        texts_sha256=TEXTS,
        usage=None,
        exchanges_sha256=None,
        issuer="me",
        qualified_at="2026-11-24T00:00:00Z",
    )


def test_rates_count_an_unusable_answer_as_an_error_on_either_side() -> None:
    rows = [
        row(1, 1, "supported", 1.0),
        row(2, 1, "contradicted", 0.0, "negation"),
        row(3, 2, "supported", None, "paraphrase"),
        row(4, 2, "not_in_change", None, "absent"),
        row(5, 3, "supported", 0.4),
        row(6, 3, "half_true", 0.5, "half_true"),
        row(7, 4, "supported", 0.5),
        row(8, 4, "half_true", 0.499, "half_true"),
    ]
    found: Any = figures_of(rows, 0.5)
    assert found["counts"] == {
        "supported": {"claims": 4, "changes": 4, "right": 2, "unusable": 1},
        "not_supported": {"claims": 4, "changes": 4, "right": 2, "unusable": 1},
    }
    assert found["sensitivity"]["value"] == 0.5 == found["false_refusal_rate"]["value"]
    assert found["specificity"]["value"] == 0.5 == found["false_support_rate"]["value"]
    assert found["balanced_accuracy"]["value"] == 0.5
    assert found["balanced_accuracy"]["method"] == "mover"
    rates = {kind: one["error_rate"]["value"] for kind, one in found["by_kind"].items()}
    assert rates.pop("plain") == 0.333333333
    assert rates == {"absent": 1, "half_true": 0.5, "negation": 0, "paraphrase": 1}
    assert found["by_kind"]["half_true"]["error_rate"]["method"] == "wilson"
    # 0.4 is a tenth below a half as it is written, whatever the double is.
    assert figures_of(rows, 0.4)["sensitivity"] != found["sensitivity"]


@pytest.mark.parametrize(
    ("name", "scores"),
    [
        ("says supported to all", lambda _, __: 1.0),
        ("says nothing usable", lambda _, __: None),
        ("flips", lambda _, true: float(not true)),
        ("answers by the change alone", lambda change, _: float(change % 2)),
        ("a coin", lambda change, true: float((change * 7 + true * 3) % 5 > 2)),
        ("refuses every claim", lambda _, __: 0.0),
    ],
)
def test_judges_that_do_not_read_do_not_qualify(
    name: str, scores: Callable[[int, bool], float | None]
) -> None:
    found: Any = figures_of(rows_of(scores), 0.5)
    assert found["qualified"] is False, name
    assert found["balanced_accuracy"]["low"] < 0.6


def test_the_lower_bound_decides_and_not_the_value() -> None:
    # One change in five is hard: all its claims are taken for the opposite of what they are.
    def often(change: int, true: bool) -> float:  # noqa: FBT001 - the rule's own form
        return float(true is (change % 5 != 0))

    few: Any = figures_of(rows_of(often, 50), 0.5)
    many: Any = figures_of(rows_of(often, 600), 0.5)
    assert few["balanced_accuracy"]["value"] == many["balanced_accuracy"]["value"] == 0.8
    assert few["balanced_accuracy"]["method"] == "cluster_mover"
    assert few["balanced_accuracy"]["low"] < 0.75 <= many["balanced_accuracy"]["low"]
    assert (few["qualified"], many["qualified"]) == (False, True)
    # Both halves fail together, so the interval of their mean is no narrower than that of one.
    width = few["balanced_accuracy"]["high"] - few["balanced_accuracy"]["low"]
    assert width == pytest.approx(few["sensitivity"]["high"] - few["sensitivity"]["low"], rel=0.02)


def test_one_side_or_one_change_qualifies_nothing() -> None:
    one_side = [row(n, n, "supported", 1.0) for n in range(100)]
    one_change = [row(n, 1, ("supported", "half_true")[n % 2], float(n % 2 == 0)) for n in range(9)]
    for rows, value in ((one_side, None), (one_change, 1), ([], None)):
        found: Any = figures_of(rows, 0.5)
        assert found["balanced_accuracy"]["value"] == value
        assert found["balanced_accuracy"]["low"] is None
        assert found["qualified"] is False


def test_a_document_follows_from_its_rows() -> None:
    rows = rows_of(lambda _, true: float(true))
    document = made(rows)
    assert document["qualified"] is True
    assert counted_again(document) == document == made(rows[::-1])
    edited = document | {"rows": cast("list[Any]", document["rows"])[4:]}
    again = counted_again(edited)
    assert again["labelled_set"] != document["labelled_set"]
    assert again["counts"] != document["counts"]


@pytest.mark.parametrize(
    "change",
    [
        {"rows": None},
        {"rows": [1]},
        {"rows": [{}]},
        {"rows": [row(1, 1, "supported", 1.0).as_document()] * 2},
        {"rows": [row(1, 1, "true", 1.0).as_document()]},
        {"rows": [row(1, 1, "supported", 1.5).as_document()]},
        {"rows": [row(1, 1, "supported", 1.0).as_document() | {"score": True}]},
        {"measure": {**MEASURE, "threshold": True}},
        {"measure": {**MEASURE, "more": 1}},
        {"labelled_set": {}},
        {"usage": 1},
        {"issuer": None},
    ],
)
def test_another_form_is_no_qualification(change: JsonObject) -> None:
    with pytest.raises(QualificationError):
        counted_again(made(rows_of(lambda _, true: float(true), 2)) | change)


# Coverage: how often the interval of the balanced accuracy holds the truth.


def drawn(
    rng: np.random.Generator, right: Sequence[Sequence[float]], hard: float
) -> list[dict[str, Tally]]:
    """Return two claims a side of 150 changes, some of them hard; `right` is (plain, hard)."""
    is_hard = (rng.random(150) < hard).astype(int)
    return [
        {
            str(change): Tally(hits, 2)
            for change, hits in enumerate(rng.binomial(2, np.take(shares, is_hard)).tolist())
        }
        for shares in right
    ]


@pytest.mark.parametrize(
    ("right", "hard"),
    [
        # Errors that have nothing to do with the change.
        (((0.9, 0.9), (0.8, 0.8)), 0.0),
        # Changes that are hard for either side: without their correlation 87 %.
        (((0.925, 0.3), (0.9, 0.3)), 0.2),
        # Changes of which a judge takes all for true.
        (((0.85, 1.0), (0.9, 0.2)), 0.2),
    ],
)
def test_the_interval_holds_the_truth_in_93_to_97_of_a_hundred(
    right: Sequence[Sequence[float]], hard: float
) -> None:
    rng = np.random.default_rng(20261124)
    truth = sum((1 - hard) * plain + hard * bad for plain, bad in right) / 2
    repeats, held = 600, 0
    for _ in range(repeats):
        interval: Any = balanced_accuracy(*drawn(rng, right, hard))
        held += interval["low"] <= truth <= interval["high"]
    assert 0.93 <= held / repeats <= 0.97, held
