"""The list of what is left to the soak names tests that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak import PARTS, part_of

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", [name for names in PARTS.values() for name in names])
def test_each_name_is_the_beginning_of_a_test(name: str) -> None:
    path, _, test = name.partition("::")
    function, _, case = test.partition("[")
    source = (ROOT / path).read_text(encoding="utf-8")
    assert f"def {function or 'test_'}" in source
    assert not case or f"def {function}(" in source


def test_a_test_has_the_part_that_names_it() -> None:
    mutation = "tests/theatre/test_bundle_mutations.py::test_no_mutant_survives_unnamed[tier.json]"
    assert part_of(mutation) == "mutants"
    assert part_of("tests/theatre/test_chains.py::test_one") is None
