"""Where `field` and `expected` of a criterion point: into an answer, an expectation, a gold label.

Source: docs/contract/scoring.md §2.
"""

from __future__ import annotations

from collections.abc import Mapping

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.scoring.paths import ABSENT, Absent, at_path

_GOLD_PREFIX = "gold:"


def expected_at(
    path: str, expected_output: JsonObject | None, label: JsonObject | None
) -> JsonValue | Absent:
    """Return what lies at `path` of the expectation, or of the gold label for `gold:<path>`.

    `gold:` alone names the whole label. ABSENT where the dataset holds nothing there.
    """
    if path.startswith(_GOLD_PREFIX):
        return _inside(label, path.removeprefix(_GOLD_PREFIX))
    return ABSENT if expected_output is None else at_path(expected_output, path)


def answered_at(path: str | None, hops: Mapping[str, JsonObject]) -> JsonValue | Absent:
    """Return what lies at `path` of the last output, or at `<construct_id>:<path>` of a hop's.

    `hops` is construct → output in call order; no path names the whole of the last output.
    ABSENT where the answer holds nothing there.
    """
    outputs = list(hops.values())
    if path is None:
        return outputs[-1] if outputs else ABSENT
    construct_id, separator, inner = path.partition(":")
    if separator:
        return at_path(hops[construct_id], inner) if construct_id in hops else ABSENT
    return at_path(outputs[-1], path) if outputs else ABSENT


def _inside(label: JsonObject | None, path: str) -> JsonValue | Absent:
    if label is None:
        return ABSENT
    return at_path(label, path) if path else label
