"""How often an interval with a human part holds the truth: simulated, and told in the docs."""

import math
import os
import re
from pathlib import Path
from typing import cast

import pytest

from tests.theatre.mixed_runs import drawn_interval

PAGE = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")
SOAK = os.environ.get("ECHELON_SOAK") == "1"
REPEATS = 1000 if SOAK else 10
HEADER = (
    "| answers rated | of 60, unrelated | of 60, alike | of 240, unrelated | of 240, alike |\n"
    "|---|---|---|---|---|\n"
)
COLUMNS = ((60, 0.0), (60, 1.0), (240, 0.0), (240, 1.0))


def documented() -> list[tuple[int, int, float, float]]:
    """Return the cells of the table: episodes, items, agreement, share."""
    (table,) = re.findall(re.escape(HEADER) + r"((?:\|.*\|\n)+)", PAGE)
    cells = []
    for line in table.splitlines():
        items, *shares = (cell.strip() for cell in line.strip("|").split("|"))
        cells += [
            (episodes, int(items), agreement, float(share.rstrip(" %")) / 100)
            for (episodes, agreement), share in zip(COLUMNS, shares, strict=True)
        ]
    return cells


@pytest.mark.parametrize(("episodes", "items", "agreement", "share"), documented(), ids=str)
def test_an_interval_with_a_human_part_holds_the_truth_as_often_as_documented(
    episodes: int, items: int, agreement: float, share: float
) -> None:
    held = 0
    for repeat in range(REPEATS):
        truth, interval = drawn_interval(
            agreement=agreement, episodes=episodes, items=items, repeat=repeat
        )
        assert interval["method"] == "mixed_clt"
        held += cast("float", interval["low"]) <= truth <= cast("float", interval["high"])
    error = math.sqrt(share * (1 - share) / REPEATS)
    tolerance = 0.002 if SOAK else 4 * error
    assert held / REPEATS == pytest.approx(share, abs=tolerance)


def test_the_table_has_the_smallest_and_the_usual_numbers_of_items() -> None:
    assert [items for _, items, *_ in documented()[::4]] == [2, 5, 10, 20, 40]
