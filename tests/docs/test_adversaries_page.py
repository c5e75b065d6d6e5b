"""`docs/adversaries.md` and `docs/hostile.md` show their tables as tests and commands read them."""

import re
from pathlib import Path

import pytest

from tests.docs.adversaries_table import drawn
from tests.docs.hostile_table import HEADER
from tests.docs.hostile_table import drawn as drawn_of_hostile
from tests.theatre.oracles.hostile_cases import read_table
from theatre.cli.adversaries.rehearsal import SHARE

PAGE = (Path(__file__).parents[2] / "docs" / "adversaries.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("head", drawn())
def test_a_table_of_the_page_is_the_table_of_the_tests(head: str) -> None:
    lines = PAGE[PAGE.index(head) :].split("\n\n")[0].splitlines()
    # Not whole texts: of many lines pytest shows the one that differs.
    assert lines == drawn()[head].splitlines()


def test_the_page_says_how_much_leaks() -> None:
    assert (SHARE, "A tenth of the episodes" in PAGE) == (10, True)


HOSTILE = (Path(__file__).parents[2] / "docs" / "hostile.md").read_text(encoding="utf-8")


def test_the_table_of_the_page_is_the_table_of_the_tests() -> None:
    lines = HOSTILE[HOSTILE.index(HEADER) :].split("\n\n")[0].splitlines()
    # Not whole texts: of many lines pytest shows the one that differs.
    assert lines == drawn_of_hostile().splitlines()


def test_the_page_names_the_limits_of_the_table() -> None:
    limits = read_table().limits
    (memory, cpu) = re.findall(r"(\d+) MiB of address space and (\d+) s of CPU", HOSTILE)[0]
    assert limits == {"memory_mb": int(memory), "cpu_seconds": int(cpu)}
