"""One answer that is right for as many expectations as possible: what a measure cannot tell apart.

Source: docs/contract/earned.md §5.2.
"""

from __future__ import annotations

import pytest

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_sha256, sha256_hex
from theatre.scorers import load_scorers

SCORERS = load_scorers()
NEAR: JsonObject = {"abs": 5}
LATER, EARLIER = "2026-01-01T00:00:00Z", "2025-12-31T23:59:59.5Z"
YEAR: JsonObject = {"half_life_seconds": 365 * 86400}
CHOICE: JsonObject = {"label": "b", "classes": ["x", "y"]}
PARTS: JsonObject = {"classes": {"p": [1, 2], "q": [3, 4]}}
SELF_MADE: JsonObject = {"a": 2, "b": 3, "content": "", "quote": ""}
SELF_MADE["hash"] = canonical_sha256({**SELF_MADE})
QUOTED: JsonObject = {"covers": "text", "hash": "sum", "max_quote": 3}
QUOTES_ALL: JsonObject = {"a": 1, "text": "x\ny", "quote": "x\ny", "sum": sha256_hex(b"x\ny")}
CLEAN: JsonObject = {"planted": None, "labelled": []}


def planted(turn: int, code: str, *implied: str) -> JsonObject:
    return {"planted": {"turn": turn, "code": code, "implied": [*implied]}, "labelled": []}


def found(*faults: tuple[int, str]) -> JsonObject:
    findings: list[JsonValue] = [{"turn": turn, "code": code} for turn, code in faults]
    return {"findings": findings, "twin_findings": findings}


FAULTS: list[JsonValue] = [planted(1, "b"), *[planted(1, "a")] * 2, planted(2, "b"), CLEAN]
IMPLIED: list[JsonValue] = [planted(1, "a", "b"), planted(1, "b", "a")]
LABELLED: list[JsonValue] = [
    {**fault, "labelled": [{"turn": 0, "code": "z"}, {"turn": turn, "code": "y"}]}
    for turn, fault in enumerate((planted(1, "a"), planted(2, "b"), CLEAN), start=3)
]
CASES: list[tuple[str, JsonObject, list[JsonValue], JsonValue]] = [
    ("numeric_tolerance", NEAR, [0, 10, 1000, "x", 2], 5),
    ("numeric_tolerance", {}, [7, 3, 7], 7),
    ("numeric_tolerance", {"rel": 1}, [1, 1000, 1e300], 1),
    ("numeric_tolerance", NEAR, [True], None),
    ("numeric_tolerance", {"rel": 1e300}, [1e308, -1e308], 0),
    ("field_match", NEAR, [{"a": 0, "b": "x"}, {"a": 10, "c": "y"}], {"a": 5, "b": "x", "c": "y"}),
    ("field_match", {}, [{"a": "z"}, {"a": "x"}, {"a": "x"}], {"a": "x"}),
    ("field_match", NEAR, [{"a": "z"}, {"a": 0}, {"a": "z"}, {"a": 3}, {"a": 10}], {"a": 5}),
    ("field_match", {}, ["x"], None),
    ("label_accuracy", {}, [{"a": 1}, {"a": 2, "b": 3}, "x"], {"a": 1, "b": 3}),
    ("label_accuracy", {}, [{"a": 1}, {"a": 2, "b": 3}, {"a": 2}], {"a": 2, "b": 3}),
    ("label_accuracy", {}, ["x", "y"], None),
    ("text_match", {}, [["b", "Yes"], ["c", "yes "], "d"], "yes"),
    ("text_match", {"at": "begin"}, ["a", "ab", "abc", "b", "b", "abd"], "abc"),
    ("text_match", {"at": "begin"}, [["z", "zz", "zzz", "y"], "a", "ab"], "ab"),
    ("text_match", {"at": "end"}, [["z", "zzy", "y"], "a", "ba"], "ba"),
    ("text_match", {"at": "end"}, ["a", "ba", "cb", "cba"], "cba"),
    ("text_match", {}, [1], None),
    ("set_f1", {}, [["a", "b"], ["b", "c"], ["a", "c"], "x"], ["a", "b", "c"]),
    ("set_f1", {}, [["a", "a"], ["b", "a", "a"], []], ["a", "a"]),
    ("set_f1", {}, [[], "x"], None),
    ("freshness_decay", YEAR, [LATER, "never", EARLIER], EARLIER),
    ("freshness_decay", YEAR, ["1970-01-01T00:00:00Z", LATER, EARLIER], EARLIER),
    ("freshness_decay", {"half_life_seconds": 1e-9}, [LATER, EARLIER], EARLIER),
    ("freshness_decay", {"half_life_seconds": 1e-9}, [LATER, EARLIER, LATER], LATER),
    ("freshness_decay", YEAR, [], None),
    ("brier", {}, ["x", "y"], {"confidence": 0}),
    ("brier", {"label": "a.b", "confidence": "a.c"}, ["", "-"], {"a": {"b": "--", "c": 0}}),
    ("brier", CHOICE, ["x", "y", "x"], {"b": "x", "confidence": 2 / 3}),
    ("brier", CHOICE, ["x", "x", "x", "y", "x", "x"], {"b": "x", "confidence": 5 / 6}),
    ("brier", CHOICE, ["y", "y", "y"], {"b": "x", "confidence": 0}),
    ("brier", {}, [{"p": 1}, {"q": ""}], {"p": "-", "q": "-", "confidence": 0}),
    ("brier", PARTS, [{"p": 1, "q": 3}, {"p": 2, "q": 3}], {"p": 1, "q": 4, "confidence": 0}),
    ("brier", PARTS, [{"p": 2, "q": 4}] * 8, {"p": 1, "q": 3, "confidence": 0}),
    ("brier", {"classes": {"p": [1, 2]}}, [{"p": 1}, {"p": 2}], {"p": 1, "confidence": 0.5}),
    ("brier", {"classes": {"p": [1]}}, [{"p": 1}], {"p": 1, "confidence": 1}),
    ("brier", {"label": "a", "confidence": "a.c"}, ["x"], None),
    ("brier", CHOICE, [], {"b": "x", "confidence": 0}),
    ("hash_chain", {}, [{"a": 1}, {"a": 2}, {"a": 2, "b": 3}, "x"], SELF_MADE),
    ("hash_chain", QUOTED, [{"a": 1, "quotes": [one]} for one in "xyx"], QUOTES_ALL),
    ("hash_chain", {"records": "shown"}, [{"record_id": 1}], None),
    ("hash_chain", {}, ["x"], None),
    ("planted_faults", {"measure": "recall"}, FAULTS, found((1, "a"), (1, "b"), (2, "b"))),
    ("planted_faults", {"measure": "invariance"}, FAULTS, found((1, "a"), (1, "b"), (2, "b"))),
    ("planted_faults", {"measure": "type"}, FAULTS, found((2, "b"), (1, "a"))),
    ("planted_faults", {"measure": "type"}, IMPLIED, found((1, "a"), (1, "b"))),
    ("planted_faults", {"measure": "precision"}, LABELLED, found((0, "z"))),
    ("planted_faults", {"measure": "precision"}, FAULTS, found((1, "a"))),
    ("planted_faults", {"measure": "recall"}, [CLEAN, "x"], None),
]


@pytest.mark.parametrize(("name", "params", "expectations", "best"), CASES)
def test_the_answer_that_is_right_for_most(
    name: str, params: JsonObject, expectations: list[JsonValue], best: JsonValue
) -> None:
    one_for_all = SCORERS[name].one_for_all
    assert one_for_all is not None
    assert one_for_all(expectations, params) == best


def test_long_beginnings_of_each_other_take_no_time() -> None:
    texts: list[JsonValue] = ["a" * length for length in range(1, 3000)]
    one_for_all = SCORERS["text_match"].one_for_all
    assert one_for_all is not None
    assert one_for_all(texts, {"at": "begin"}) == texts[-1]
