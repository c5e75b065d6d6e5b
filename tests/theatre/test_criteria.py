"""Criteria as a value; what weights must be is a table in `test_template_validator`."""

from dataclasses import FrozenInstanceError

import pytest
from pydantic import TypeAdapter, ValidationError

from tests.theatre.test_template_validator import ERRORS, REPLAY, VALIDATOR, edited
from theatre.engine.models import TheatreCriteria

WEIGHTS = "/criteria/weights"


def test_criteria_are_frozen_and_closed() -> None:
    criteria = TheatreCriteria(criteria_ids=("a", "b"))
    assert (criteria.criteria_human, criteria.weights) == ("", {})
    with pytest.raises(FrozenInstanceError):
        criteria.criteria_human = "changed"  # type: ignore[misc]
    with pytest.raises(ValidationError, match="Unexpected keyword argument"):
        TypeAdapter(TheatreCriteria).validate_python({"criteria_ids": ["a"], "bonus": 1})


def test_weights_may_miss_one_by_a_millionth_and_by_no_more() -> None:
    for weight, is_valid in ((0.300001, True), (0.300002, False)):
        report = VALIDATOR.validate(edited(REPLAY, {f"{WEIGHTS}/left": weight}))
        assert (report.errors == ()) is is_valid


def test_each_rule_of_weights_has_a_case_in_the_table() -> None:
    assert {case.rule for case in ERRORS if case.rule.startswith("weights-")} == {
        "weights-cover-criteria",
        "weights-finite-and-not-negative",
        "weights-sum-to-one",
        "weights-within-criteria",
    }
