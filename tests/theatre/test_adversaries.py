"""The table of adversaries: each row is carried out, and ends as the table says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.theatre.adversary_attacks import ATTACKS
from theatre.cli.adversaries.table import adversaries

pytestmark = pytest.mark.untraced

ROWS = {one.name: one for one in adversaries()}


@pytest.mark.parametrize("name", [name for name in ROWS if name in ATTACKS])
def test_an_attack_ends_as_its_row_says(tmp_path: Path, name: str) -> None:
    assert ATTACKS[name](tmp_path) == ROWS[name].ends
