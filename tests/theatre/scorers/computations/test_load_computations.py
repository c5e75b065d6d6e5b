"""Finding the installed computations, and refusing registrations that cannot be used."""

import re
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from theatre.debate.episodes.audit_trial import COMPUTATION as DEBATE_AUDIT_TRIAL
from theatre.debate.episodes.control_effect import COMPUTATION as DEBATE_CONTROL_EFFECT
from theatre.debate.episodes.decisions import COMPUTATION as DEBATE_DECISIONS
from theatre.debate.judge.scorer import AGREEMENT as DEBATE_JUDGE_AGREEMENT
from theatre.engine.errors import TheatreError
from theatre.scorers import ComputationRegistrationError, load_computations, registered_computations
from theatre.scorers.computations.chain_propagation import COMPUTATION as CHAIN_PROPAGATION
from theatre.scorers.computations.paired_answers import COMPUTATION as PAIRED_ANSWERS
from theatre.scorers.computations.paired_separation import COMPUTATION as PAIRED_SEPARATION
from theatre.scorers.computations.provenance_chain import COMPUTATION as PROVENANCE_CHAIN
from theatre.verification.judge.control_errors import COMPUTATION as JUDGE_CONTROLS
from theatre.verification.judge.scorer import AGREEMENT as JUDGE_AGREEMENT
from theatre.verification.judge.second_opinion import COMPUTATION as SECOND_OPINION

CHECKOUT = Path(__file__).parents[4]
SHIPPED = {
    "chain_propagation": CHAIN_PROPAGATION,
    "debate_audit_trial": DEBATE_AUDIT_TRIAL,
    "debate_control_effect": DEBATE_CONTROL_EFFECT,
    "debate_decisions": DEBATE_DECISIONS,
    "debate_judge_agreement": DEBATE_JUDGE_AGREEMENT,
    "judge_agreement": JUDGE_AGREEMENT,
    "judge_controls": JUDGE_CONTROLS,
    "paired_answers": PAIRED_ANSWERS,
    "paired_separation": PAIRED_SEPARATION,
    "provenance_chain": PROVENANCE_CHAIN,
    "second_opinion": SECOND_OPINION,
}


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group="echelon.computations")


def test_the_installed_project_offers_its_computations() -> None:
    assert load_computations() == SHIPPED


def test_the_project_registers_every_computation_module_that_it_has() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    registered = project["entry-points"]["echelon.computations"]
    paths = (CHECKOUT / "theatre").rglob("*.py")
    modules = {
        ".".join(path.relative_to(CHECKOUT).with_suffix("").parts)
        for path in paths
        if re.search(
            r"\n(?:COMPUTATION|AGREEMENT) = \w*omputation\(", path.read_text(encoding="utf-8")
        )
    }
    assert {value.partition(":")[0] for value in registered.values()} == modules
    entries = [entry(name, value) for name, value in registered.items()]
    assert registered_computations(entries) == SHIPPED


def test_no_entry_gives_no_computation() -> None:
    assert registered_computations([]) == {}


def test_the_documentation_names_each_computation_with_its_parameters() -> None:
    text = (CHECKOUT / "docs" / "scorers.md").read_text(encoding="utf-8")
    named = {
        "chain_propagation": "`chain`, `field`, `expected`, `decision`, `effects?`, `listed?`",
        "debate_audit_trial": "-",
        "debate_control_effect": "-",
        "debate_decisions": "-",
        "debate_judge_agreement": "`criteria_scorers`",
        "judge_agreement": "`criteria_scorers`",
        "judge_controls": "`criteria_scorers`",
        "paired_answers": "`twin`, `decision`, `right`",
        "paired_separation": "`first`, `second`, `verdicts_at`, `verdicts`, `score`",
        "provenance_chain": "`required?` (paths)",
        "second_opinion": "`pairs`, `criteria_scorers`, `beyond`",
    }
    for name, params in named.items():
        version = SHIPPED[name].version
        (row,) = [line for line in text.splitlines() if line.startswith(f"| `{name}@{version}` |")]
        assert [cell.strip() for cell in row.split("|")[2:4]] == [SHIPPED[name].kind, params]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("OTHER = 1", "expected computation mine at computation_plugin:IT, got AttributeError: "),
        ("IT = None", "expected a Computation at computation_plugin:IT, got NoneType"),
        (
            "from theatre.scorers.exact_match import SCORER as IT",
            "expected a Computation at computation_plugin:IT, got Scorer",
        ),
        (
            "from theatre.scorers.computations.provenance_chain import COMPUTATION as IT",
            "to bear the name of its entry point, mine; got provenance_chain",
        ),
    ],
)
def test_an_entry_that_gives_no_usable_computation_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, message: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "computation_plugin", raising=False)
    (tmp_path / "computation_plugin.py").write_text(source)
    with pytest.raises(ComputationRegistrationError, match=re.escape(message)) as caught:
        _ = registered_computations([entry("mine", "computation_plugin:IT")])["mine"]
    assert isinstance(caught.value, TheatreError)
    assert caught.value.code == "computation-registration"


def test_two_different_computations_of_one_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "computation_plugin", raising=False)
    (tmp_path / "computation_plugin.py").write_text(
        "from dataclasses import replace\n"
        "from theatre.scorers.computations.provenance_chain import COMPUTATION\n"
        'IT = replace(COMPUTATION, version="2")\n'
    )
    entries = [
        entry("provenance_chain", "theatre.scorers.computations.provenance_chain:COMPUTATION"),
        entry("provenance_chain", "computation_plugin:IT"),
    ]
    message = "expected one computation of the name provenance_chain, got two: one of them is "
    with pytest.raises(ComputationRegistrationError, match=re.escape(message)):
        _ = registered_computations(entries)["provenance_chain"]


@pytest.mark.parametrize(
    ("params", "valid"),
    [
        ({}, True),
        ({"required": ["content", "source.type"]}, True),
        ({"dataset": "provenance"}, False),
        ({"required": [""]}, False),
        ({"required": []}, False),
        ({"required": "content"}, False),
        ({"genesis": "0"}, False),
    ],
)
def test_the_schema_knows_the_parameters(params: dict[str, object], *, valid: bool) -> None:
    assert PROVENANCE_CHAIN.pin == "provenance_chain@1"
    Draft202012Validator.check_schema(PROVENANCE_CHAIN.params_schema)
    assert Draft202012Validator(PROVENANCE_CHAIN.params_schema).is_valid(params) is valid
