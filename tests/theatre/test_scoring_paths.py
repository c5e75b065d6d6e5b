"""Dotted paths: objects by key, arrays by index, and nothing else leads anywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.scoring.provider import ABSENT, at_path

DOCUMENT: JsonObject = {
    "cells": [{"q": 1}, {"q": None}],
    "": "empty key",
    "0": "a key that looks like an index",
    "nothing": None,
    "text": "abc",
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("cells", [{"q": 1}, {"q": None}]),
        ("cells.0", {"q": 1}),
        ("cells.0.q", 1),
        ("cells.1.q", None),
        ("nothing", None),
        ("0", "a key that looks like an index"),
        ("", "empty key"),
    ],
)
def test_a_path_leads_to_its_value(path: str, found: JsonValue) -> None:
    assert at_path(DOCUMENT, path) == found


@pytest.mark.parametrize(
    "path",
    [
        "absent",
        "cells.2",
        "cells.-1",
        "cells.00",
        "cells.01",
        "cells.+0",
        "cells. 0",
        "cells.0\n",
        "cells.\N{ARABIC-INDIC DIGIT ZERO}",
        "cells.\N{SUPERSCRIPT TWO}",
        "cells.",
        "cells.q",
        "cells." + "1" * 5000,
        "nothing.more",
        "text.0",
        "cells.0.q.0",
        ".cells",
        "Cells",
    ],
)
def test_any_other_path_leads_nowhere_and_raises_nothing(path: str) -> None:
    assert at_path(DOCUMENT, path) is ABSENT


@given(st.lists(st.integers(), min_size=1), st.integers(min_value=0, max_value=30))
def test_an_index_counts_from_0_to_the_end(items: list[int], index: int) -> None:
    expected = items[index] if index < len(items) else ABSENT
    assert at_path({"items": [*items]}, f"items.{index}") == expected
