"""Finding the installed scorers, and refusing registrations that cannot be used."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from theatre.engine.models import Scorer
from theatre.scorers import (
    ENTRY_POINT_GROUP,
    ScorerRegistrationError,
    load_scorers,
    registered_scorers,
)
from theatre.scorers.exact_match import SCORER as EXACT_MATCH
from theatre.scorers.field_match import SCORER as FIELD_MATCH
from theatre.scorers.numeric_tolerance import SCORER as NUMERIC_TOLERANCE
from theatre.scorers.sequence_similarity import SCORER as SEQUENCE_SIMILARITY
from theatre.scorers.set_f1 import SCORER as SET_F1

SHIPPED = {
    "exact_match": EXACT_MATCH,
    "field_match": FIELD_MATCH,
    "numeric_tolerance": NUMERIC_TOLERANCE,
    "sequence_similarity": SEQUENCE_SIMILARITY,
    "set_f1": SET_F1,
}


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group=ENTRY_POINT_GROUP)


@pytest.fixture
def plugin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "scorer_plugin", raising=False)
    return tmp_path


def test_the_installed_project_offers_its_five_scorers_sorted_by_name() -> None:
    assert list(load_scorers().items()) == list(SHIPPED.items())


def test_the_project_registers_every_scorer_module_that_it_has() -> None:
    checkout = Path(__file__).parents[3]
    project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    registered = project["entry-points"][ENTRY_POINT_GROUP]
    entries = [entry(name, value) for name, value in reversed(registered.items())]
    assert list(registered_scorers(entries).items()) == list(SHIPPED.items())


@pytest.mark.parametrize("scorer", SHIPPED.values(), ids=lambda scorer: str(scorer.name))
def test_each_parameter_schema_is_a_closed_and_valid_json_schema(scorer: Scorer) -> None:
    Draft202012Validator.check_schema(scorer.params_schema)
    validator = Draft202012Validator(scorer.params_schema)
    paths = {"field": "result", "expected": "gold:label"}
    assert validator.is_valid(paths)
    assert not validator.is_valid(paths | {"unknown": 1})
    assert not validator.is_valid(paths | {"field": ""})


def test_the_same_scorer_registered_twice_counts_once() -> None:
    exact_match = entry("exact_match", "theatre.scorers.exact_match:SCORER")
    assert registered_scorers([exact_match, exact_match]) == {"exact_match": EXACT_MATCH}


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
        registered_scorers(entries)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("OTHER = 1", "expected scorer mine at scorer_plugin:SCORER, got AttributeError: "),
        ("import no_such_module", "at scorer_plugin:SCORER, got ModuleNotFoundError: "),
        ("SCORER = (", "at scorer_plugin:SCORER, got SyntaxError: "),
        ("SCORER = None", "expected a Scorer at scorer_plugin:SCORER, got NoneType"),
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
        registered_scorers([entry("mine", "scorer_plugin:SCORER")])
    assert caught.value.code == "scorer-registration"
