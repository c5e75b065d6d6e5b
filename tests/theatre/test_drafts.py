"""A draft says what its author knows; the template that is committed says everything."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from theatre.api.template_files import is_draft
from theatre.drafts.compilation import compile_draft
from theatre.drafts.errors import DraftError
from theatre.drafts.pinning import changes
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.errors import ParseError
from theatre.engine.schema_registry import resource_root
from theatre.files.yaml_files import parse_yaml
from theatre.scorers import load_scorers

FIXTURES = resource_root() / "fixtures"
ROMAN: JsonObject = {"construct": "roman:to_roman", "data": "questions.jsonl", "answer": "numeral"}


def compiled(draft: JsonObject) -> Any:  # noqa: ANN401  # any JSON
    return compile_draft(draft, load_scorers())


def test_three_lines_are_a_whole_template() -> None:
    template = compiled(ROMAN)
    assert template.pop("fork_definitions")[0]["fork_id"] == "f_01"
    assert template == {
        "schema_version": "2.2.0",
        "theatre_id": "product_roman_v1",
        "template_family": "PRODUCT",
        "execution_path": "replay",
        "display_name": "roman",
        "criteria": {
            "criteria_ids": ["right_numeral"],
            "criteria_human": "right_numeral: exact_match of numeral.",
        },
        "version_pins": {
            "constructs": {},
            "adapter_version": "python@1",
            "scorer_version": "exact_match@1",
        },
        "scorer_pins": {"exact_match": "1"},
        "resolution_programme": [
            {"step_id": "ask", "type": "construct_invocation", "construct_id": "roman"},
            {"step_id": "sum_up", "type": "aggregation"},
        ],
        "scoring": {
            "criteria_scorers": {
                "right_numeral": {
                    "scorer": "exact_match",
                    "params": {"field": "numeral", "expected": "numeral"},
                }
            }
        },
        "product_theatre_config": {
            "ground_truth_source": "CUSTOM",
            "construct_under_test": "roman",
            "adapter_type": "python",
            "adapter_endpoint": "roman:to_roman",
            "replay_dataset_id": "questions",
            "replay_data_path": "questions.jsonl",
        },
    }


def test_whatever_a_template_says_a_draft_can_say() -> None:
    for path in sorted(FIXTURES.glob("templates/**/*_v*.json")):
        document = json.loads(path.read_bytes())
        if not isinstance(document, dict) or document.get("schema_version") not in {
            "2.1.0",
            "2.2.0",
        }:
            continue
        pinned = "scorer_pins" in document
        assert not pinned or compiled({"template": document}) == document, path


def test_what_the_template_says_goes_over_what_the_draft_gives() -> None:
    over: JsonObject = {
        "execution_policy": {"max_concurrency": 4},
        "criteria": {"criteria_human": "The usual numeral."},
        "metadata": {"author": "me"},
    }
    template = compiled({**ROMAN, "template": over})
    assert template["execution_policy"] == {"max_concurrency": 4}
    assert template["criteria"] == {
        "criteria_ids": ["right_numeral"],
        "criteria_human": "The usual numeral.",
    }


@pytest.mark.parametrize(
    ("construct", "reached"),
    [
        ("pkg/roman.py:f", ("roman", "python", "pkg.roman:f")),
        (["node", "solution.mjs"], ("solution", "local", '["node", "solution.mjs"]')),
        ("https://api.example/v1", ("api", "http", "https://api.example/v1")),
        ("construct:thermometer", ("thermometer", "local", "construct:thermometer")),
        ("openai:a/b-1:3b@http://[::1]:1/v1", ("a_b-1_3b", "openai", "http://[::1]:1/v1")),
        ("openai:gpt-5", ("gpt-5", "openai", "https://api.openai.com/v1")),
        ("anthropic:c-1", ("c-1", "anthropic", "https://api.anthropic.com")),
        ("openai.py:answer", ("openai", "python", "openai:answer")),
        (
            {"adapter": "openai", "endpoint": "https://x.example/v1", "id": "small"},
            ("small", "openai", "https://x.example/v1"),
        ),
    ],
)
def test_a_construct_is_named_as_people_name_it(
    construct: JsonValue, reached: tuple[str, str, str]
) -> None:
    config = compiled({**ROMAN, "construct": construct})["product_theatre_config"]
    named = ("construct_under_test", "adapter_type", "adapter_endpoint")
    assert tuple(config[name] for name in named) == reached


@pytest.mark.parametrize(
    ("draft", "said"),
    [
        ({**ROMAN, "mesure": "brier"}, "did you mean measure?"),
        ({**ROMAN, "measure": "exact_mach"}, "did you mean exact_match?"),
        (
            {**ROMAN, "measure": cast("JsonObject", {"scorer": "numeric_tolerance", "abz": 1})},
            "did you mean abs?",
        ),
        ({"data": "x.jsonl"}, "expected construct, got none"),
        ({"construct": "a:b"}, "expected data, got none"),
        ({**ROMAN, "construct": "solution.py"}, "expected module:name of a Python function"),
        ({**ROMAN, "measures": {"a": "brier"}, "measure": "brier"}, "expected measure or measures"),
    ],
)
def test_a_mistake_is_named_with_what_was_meant(draft: JsonObject, said: str) -> None:
    with pytest.raises(DraftError) as caught:
        compiled(draft)
    assert said in str(caught.value)


def test_a_template_is_no_draft() -> None:
    assert is_draft(ROMAN)
    assert not is_draft({"schema_version": "2.1.0", "template": {}})
    assert not is_draft({})


def test_plain_words_of_yaml_stay_what_json_has() -> None:
    text = b"a: no\nb: 1e-3\nc: 2026-01-01\nd:\ne: 010\nf: true\ng: -3\n"
    assert parse_yaml(text, as_json=True) == {
        "a": "no",
        "b": 0.001,
        "c": "2026-01-01",
        "d": None,
        "e": "010",
        "f": True,
        "g": -3,
    }


def test_a_value_stands_where_it_is_used() -> None:
    """Eight more such lines would be a billion values: aliases are refused before they are read."""
    with pytest.raises(ParseError, match=r"got the alias \*a at line 2"):
        parse_yaml(b"a: &a [x, x]\nb: [*a, *a]\n", as_json=True)


def test_what_changed_is_named() -> None:
    before: JsonObject = {"dataset_hashes": {"q": "a" * 64}, "x": {"y": 1}, "gone": 1}
    after: JsonObject = {"dataset_hashes": {"q": "b" * 64}, "x": {"y": 2}, "new": [1]}
    assert changes(before, before) == []
    assert changes(before, after) == [
        "the data q changed: aaaaaaaaaaaa… → bbbbbbbbbbbb…",
        "/x/y: 1 → 2",
        "/gone: gone, was 1",
        "/new: new, [1]",
    ]


def test_every_recipe_compiles() -> None:
    drafts = sorted(FIXTURES.glob("recipes/*/echelon.yaml"))
    assert [len(path.read_text(encoding="utf-8").splitlines()) <= 15 for path in drafts] == [
        True
    ] * 8
    for path in drafts:
        compiled(parse_yaml(Path(path).read_bytes(), as_json=True))  # type: ignore[arg-type]
