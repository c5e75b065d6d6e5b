"""Finding the installed scorers, what all of them hold to, and refusing bad registrations."""

import math
import re
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.theatre.scorers.scoring_cases import HOSTILE_JSON, case_of
from theatre.debate.episodes.fault_scorer import SCORER as PLANTED_FAULTS
from theatre.debate.episodes.quality_scorer import SCORER as DEBATE_QUALITY
from theatre.debate.episodes.transition_scorer import SCORER as DEBATE_TRANSITIONS
from theatre.debate.judge.questions import RUBRICS
from theatre.debate.judge.scorer import SCORER as DEBATE_JUDGE
from theatre.engine.bundle_check.arithmetic import SCORER_KINDS
from theatre.engine.bundle_check.bundle_reader import WITHOUT_TRUTH
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import Scorer
from theatre.scorers import ScorerRegistrationError, exact_match, load_scorers, registered_scorers
from theatre.scorers.brier import SCORER as BRIER
from theatre.scorers.contains_terms import SCORER as CONTAINS_TERMS
from theatre.scorers.exact_match import SCORER as EXACT_MATCH
from theatre.scorers.field_match import SCORER as FIELD_MATCH
from theatre.scorers.freshness_decay import SCORER as FRESHNESS_DECAY
from theatre.scorers.harness_score import SCORER as HARNESS_SCORE
from theatre.scorers.hash_chain import SCORER as HASH_CHAIN
from theatre.scorers.json_schema import SCORER as JSON_SCHEMA
from theatre.scorers.label_accuracy import SCORER as LABEL_ACCURACY
from theatre.scorers.numeric_tolerance import SCORER as NUMERIC_TOLERANCE
from theatre.scorers.record_completeness import SCORER as RECORD_COMPLETENESS
from theatre.scorers.sequence_similarity import SCORER as SEQUENCE_SIMILARITY
from theatre.scorers.set_f1 import SCORER as SET_F1
from theatre.scorers.text_match import SCORER as TEXT_MATCH
from theatre.scorers.timestamp_order import SCORER as TIMESTAMP_ORDER
from theatre.verification.judge.scorer import SCORER as LLM_JUDGE
from theatre.verification.judge.scorer import committed_judge
from theatre.verification.lexical import PRECISION, RECALL, REPLY_ACCURACY

CHECKOUT = Path(__file__).parents[3]
SHIPPED = {
    "brier": BRIER,
    "contains_terms": CONTAINS_TERMS,
    "debate_judge": DEBATE_JUDGE,
    "debate_quality": DEBATE_QUALITY,
    "debate_transitions": DEBATE_TRANSITIONS,
    "exact_match": EXACT_MATCH,
    "field_match": FIELD_MATCH,
    "freshness_decay": FRESHNESS_DECAY,
    "harness_score": HARNESS_SCORE,
    "hash_chain": HASH_CHAIN,
    "json_schema": JSON_SCHEMA,
    "label_accuracy": LABEL_ACCURACY,
    "lexical_precision": PRECISION,
    "lexical_recall": RECALL,
    "lexical_reply_accuracy": REPLY_ACCURACY,
    "llm_judge": LLM_JUDGE,
    "numeric_tolerance": NUMERIC_TOLERANCE,
    "planted_faults": PLANTED_FAULTS,
    "record_completeness": RECORD_COMPLETENESS,
    "sequence_similarity": SEQUENCE_SIMILARITY,
    "set_f1": SET_F1,
    "text_match": TEXT_MATCH,
    "timestamp_order": TIMESTAMP_ORDER,
}
OWN_PARAMS: dict[str, JsonObject] = {
    "contains_terms": {"field": "result", "terms": ["red"]},
    "debate_judge": {
        "field": "result",
        "figure": "validity",
        "judge": RUBRICS.committed("a-model", temperature=0),
    },
    "debate_quality": {"evidence": "as_of", "field": "result", "measure": "gamma"},
    "debate_transitions": {"expected": "gold:label", "measure": "net_effect"},
    "freshness_decay": {"field": "result", "reference": "as_of", "half_life_seconds": 1},
    "harness_score": {"field": "result"},
    "json_schema": {"field": "result", "schema": {}},
    "lexical_precision": {"field": "result", "diff": "as_of"},
    "planted_faults": {"expected": "gold:label", "measure": "recall"},
    "llm_judge": {
        "field": "result",
        "measure": "precision",
        "record": "record",
        "judge": committed_judge("a-model", temperature=0, repeats=1),
    },
    "record_completeness": {"field": "result", "required": ["id"]},
    "timestamp_order": {"field": "result"},
}
PATHS: JsonObject = {"field": "result", "expected": "gold:label"}
FURTHER_PARAMS: list[JsonObject] = [
    {**PATHS, "records": "records"},
    {**PATHS, "records": "records", "covers": "content", "hash": "a", "max_quote": 1},
    {**PATHS, "half_life_seconds": 1},
    {**PATHS, "label": "label", "classes": ["a", None, 1]},
    {**PATHS, "classes": {"label": ["a", None, 1]}},
    {**PATHS, "case": True},
    {**PATHS, "measure": "begun_true"},
    {**PATHS, "measure": "precision"},
    {**PATHS, "measure": "invariance"},
    {"evidence": "as_of", "field": "result", "measure": "conformance"},
    {"evidence": "as_of", "field": "result", "measure": "rung", "rung": "L3"},
]


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group="echelon.scorers")


@pytest.fixture
def plugin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "scorer_plugin", raising=False)
    return tmp_path


def test_the_installed_project_offers_its_scorers_sorted_by_name() -> None:
    assert list(load_scorers().items()) == list(SHIPPED.items())


def test_the_project_registers_every_scorer_module_that_it_has() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    registered = project["entry-points"]["echelon.scorers"]
    entries = [entry(name, value) for name, value in reversed(registered.items())]
    assert list(registered_scorers(entries).items()) == list(SHIPPED.items())


@pytest.mark.parametrize("scorer", SHIPPED.values(), ids=lambda scorer: str(scorer.name))
def test_each_parameter_schema_is_a_closed_and_valid_json_schema(scorer: Scorer) -> None:
    Draft202012Validator.check_schema(scorer.params_schema)
    validator = Draft202012Validator(scorer.params_schema)
    params = OWN_PARAMS.get(scorer.name, PATHS)
    assert validator.is_valid(params)
    assert not validator.is_valid({**params, "unknown": 1})
    assert not validator.is_valid({**params, "field": ""})


@pytest.mark.parametrize("scorer", SHIPPED.values(), ids=lambda scorer: str(scorer.name))
def test_the_documentation_has_a_row_for_each_scorer_with_all_its_parameters(
    scorer: Scorer,
) -> None:
    rows = (CHECKOUT / "docs" / "scorers.md").read_text(encoding="utf-8").splitlines()
    (row,) = [row for row in rows if row.startswith(f"| `{scorer.pin}` | {scorer.kind} |")]
    required = cast("list[str]", scorer.params_schema["required"])
    for param in cast("JsonObject", scorer.params_schema["properties"]):
        assert f"`{param}`" in row if param in required else f"`{param}?`" in row


@given(data=st.data(), answers=st.tuples(HOSTILE_JSON, HOSTILE_JSON), expected=HOSTILE_JSON)
@pytest.mark.parametrize("scorer", SHIPPED.values(), ids=lambda scorer: str(scorer.name))
def test_no_answer_and_no_expectation_makes_a_scorer_raise_and_no_answer_leaves_it_unscored(
    scorer: Scorer, data: st.DataObject, answers: tuple[JsonValue, JsonValue], expected: JsonValue
) -> None:
    params = data.draw(st.sampled_from([OWN_PARAMS.get(scorer.name, PATHS), *FURTHER_PARAMS]))
    if not Draft202012Validator(scorer.params_schema).is_valid(params):
        params = OWN_PARAMS.get(scorer.name, PATHS)
    shown: JsonObject = {"as_of": expected, "records": data.draw(st.lists(HOSTILE_JSON))}
    values = [
        scorer.score(case_of(params, answer, expected=expected, input_data=shown))
        for answer in answers
    ]
    measured = [value is None or 0.0 <= value <= 1.0 for value in values]
    unmeasurable = [value is not None and math.isnan(value) for value in values]
    assert all(measured) or all(unmeasurable)


def test_the_same_scorer_registered_twice_counts_once() -> None:
    exact_match = entry("exact_match", "theatre.scorers.exact_match:SCORER")
    assert registered_scorers([exact_match, exact_match]) == {"exact_match": EXACT_MATCH}


def test_what_is_not_looked_up_is_not_imported() -> None:
    entries = [entry("exact_match", "theatre.scorers.exact_match:SCORER"), entry("b", "no_module:")]
    scorers = registered_scorers(entries)
    assert [*scorers] == ["b", "exact_match"]
    assert scorers["exact_match"] is EXACT_MATCH


def test_no_entry_gives_no_scorer() -> None:
    assert registered_scorers([]) == {}


def test_two_different_scorers_of_one_name_are_refused(plugin_folder: Path) -> None:
    (plugin_folder / "scorer_plugin.py").write_text(
        "from dataclasses import replace\n"
        "from theatre.scorers.exact_match import SCORER as ORIGINAL\n"
        "SCORER = replace(ORIGINAL, score=lambda case: 1.0)\n"
    )
    entries = [
        entry("exact_match", "theatre.scorers.exact_match:SCORER"),
        entry("exact_match", "scorer_plugin:SCORER"),
    ]
    message = "expected one scorer of the name exact_match, got two: one of them is scorer_plugin:"
    with pytest.raises(ScorerRegistrationError, match=re.escape(message)):
        _ = registered_scorers(entries)["exact_match"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("OTHER = 1", "expected scorer mine at scorer_plugin:SCORER, got AttributeError: "),
        ("import no_such_module", "at scorer_plugin:SCORER, got ModuleNotFoundError: "),
        ("SCORER = (", "at scorer_plugin:SCORER, got SyntaxError: "),
        ("SCORER = None", "expected a Scorer at scorer_plugin:SCORER, got NoneType"),
        (
            (
                "from theatre.engine.models import Scorer\n"
                "SCORER = Scorer(name='mine', version='1', params_schema={}, score=float)"
            ),
            (
                "at scorer_plugin:SCORER, got TypeError: Scorer.__init__() missing 1 required "
                "keyword-only argument: 'kind'"
            ),
        ),
        (
            (
                "from dataclasses import replace\nfrom theatre.scorers.exact_match import SCORER\n"
                "SCORER = replace(SCORER, name='mine', kind='judged')"
            ),
            "at scorer_plugin:SCORER, got ValueError: expected kind judged exactly",
        ),
        (
            "from theatre.engine.models import Scorer as SCORER",
            "expected a Scorer at scorer_plugin:SCORER, got type",
        ),
        (
            "from theatre.scorers.exact_match import SCORER",
            "to bear the name of its entry point, mine; got exact_match",
        ),
    ],
)
def test_an_entry_that_gives_no_usable_scorer_is_refused_by_name(
    plugin_folder: Path, source: str, message: str
) -> None:
    (plugin_folder / "scorer_plugin.py").write_text(source)
    with pytest.raises(ScorerRegistrationError, match=re.escape(message)) as caught:
        _ = registered_scorers([entry("mine", "scorer_plugin:SCORER")])["mine"]
    assert caught.value.code == "scorer-registration"


def test_the_check_has_a_list_of_its_own_of_what_scorers_rest_on() -> None:
    """It believes no receipt and shares no registry: so a new scorer needs its line there."""
    assert {name: scorer.kind for name, scorer in SHIPPED.items()} == {
        name: SCORER_KINDS[name] for name in SHIPPED
    }
    without = {name for name, scorer in SHIPPED.items() if not scorer.needs_expectation}
    assert without == WITHOUT_TRUTH


def test_a_plug_in_on_a_path_that_came_later_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = load_scorers()
    metadata = tmp_path / "late-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: late\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[echelon.scorers]\nlate = late_scorer:SCORER\n")
    source = Path(exact_match.__file__).read_text().replace('"exact_match"', '"late"')
    (tmp_path / "late_scorer.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    assert set(load_scorers()) == {*before, "late"}
    monkeypatch.undo()
    assert load_scorers() == before
