"""`docs/adversaries.md` shows the table of adversaries as the tests and the command read it."""

from pathlib import Path

import pytest

from tests.docs.adversaries_table import drawn
from theatre.cli.adversaries.rehearsal import SHARE

PAGE = (Path(__file__).parents[2] / "docs" / "adversaries.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("head", drawn())
def test_a_table_of_the_page_is_the_table_of_the_tests(head: str) -> None:
    lines = PAGE[PAGE.index(head) :].split("\n\n")[0].splitlines()
    # Not whole texts: of many lines pytest shows the one that differs.
    assert lines == drawn()[head].splitlines()


def test_the_page_says_how_much_leaks() -> None:
    assert (SHARE, "A tenth of the episodes" in PAGE) == (10, True)
