"""The lists of what is left to the soak, and of what carries the coverage, name tests there are."""

from pathlib import Path

from tests.soak import KEPT, PARTS, part_of

ROOT = Path(__file__).parents[1]


def test_each_name_is_the_beginning_of_a_test() -> None:
    left = (name for names in PARTS.values() for name in names)
    # A name that is no test ends the gate before it has run one.
    carried = (ROOT / "tests/coverage_gate.txt").read_text(encoding="utf-8").split("\n")[:-1]
    for name in (*KEPT, *left, *carried):
        path, _, test = name.partition("::")
        source = (ROOT / path).read_text(encoding="utf-8")
        assert f"def {test.partition('[')[0] or 'test_'}" in source, name


def test_what_is_kept_is_a_case_of_a_test_that_a_part_names() -> None:
    for name in KEPT:
        assert part_of(name) is None, name
        assert part_of(f"{name[:-1]}?") is not None, name


def test_a_test_has_the_part_that_names_it() -> None:
    mutation = "tests/theatre/test_bundle_mutations.py::test_no_mutant_survives_unnamed[tier.json]"
    assert part_of(mutation) == "mutants"
    assert part_of("tests/theatre/test_chains.py::test_one") is None
    assert part_of("tests/theatre/test_bundle_mutations.py") == "mutants"
