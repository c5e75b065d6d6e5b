"""`docs/hostile.md` shows the table of the hostile construct as the tests read it."""

import re
from pathlib import Path

from tests.docs.hostile_table import HEADER, drawn
from tests.theatre.oracles.hostile_cases import read_table

PAGE = (Path(__file__).parents[2] / "docs" / "hostile.md").read_text(encoding="utf-8")


def test_the_table_of_the_page_is_the_table_of_the_tests() -> None:
    lines = PAGE[PAGE.index(HEADER) :].split("\n\n")[0].splitlines()
    # Not whole texts: of many lines pytest shows the one that differs.
    assert lines == drawn().splitlines()


def test_the_page_names_the_limits_of_the_table() -> None:
    limits = read_table().limits
    (memory, cpu) = re.findall(r"(\d+) MiB of address space and (\d+) s of CPU", PAGE)[0]
    assert limits == {"memory_mb": int(memory), "cpu_seconds": int(cpu)}
