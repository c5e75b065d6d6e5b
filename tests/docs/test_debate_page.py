"""`docs/debate.md` holds the figures that the corpus and the sweep come to, and the rules."""

import asyncio
import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.debate.auditor_trial import (
    AuditFinding,
    LabelledDebate,
    audit,
    clean_trial,
    corruption_trial,
    null_trial,
)
from tests.theatre.echelon_process import echelon
from theatre.debate.evaluators import EVALUATORS
from theatre.debate.models import Debate, counting_clock
from theatre.debate.rules import RULES
from theatre.debate.runner import DebateRun
from theatre.debate.scripted import ScriptedDebater, read_scenario
from theatre.debate.sweep import read_plan, runs_of, table
from theatre.debate.validation import read_debate
from theatre.engine.canonical_json import JsonObject, canonical_line, parse_object
from theatre.engine.schema_registry import SchemaRegistry

CHECKOUT = Path(__file__).parents[2]
CORPUS = CHECKOUT / "fixtures" / "debates"
TEMPLATES = CHECKOUT / "fixtures" / "templates"
PAGE = (CHECKOUT / "docs" / "debate.md").read_text(encoding="utf-8")
REGISTRY = SchemaRegistry()


def labelled(kind: str) -> Iterator[LabelledDebate]:
    """Yield the debates of one kind with the faults that were labelled beforehand."""
    faults = json.loads((CORPUS / f"{kind}_faults.json").read_bytes())
    paths = sorted((CORPUS / kind).glob("*.json"))
    assert sorted(faults) == [path.stem for path in paths]
    for path in paths:
        # In the corpus a turn stands at the place of its index.
        found = {AuditFinding(one["turn_index"], one["code"]) for one in faults[path.stem]}
        yield LabelledDebate(document=parse_object(path.read_bytes()), faults=frozenset(found))


def auditor(document: JsonObject, earlier: JsonObject | None) -> frozenset[AuditFinding]:
    return audit(document, earlier=earlier, registry=REGISTRY)


@pytest.fixture(scope="module")
def trials() -> dict[str, Any]:
    """Return what the auditor makes of both kinds of debate."""
    return {
        kind: {
            "planted": corruption_trial(labelled(kind), auditor),
            "null": null_trial(labelled(kind), auditor),
            "clean": clean_trial(labelled(kind), auditor),
        }
        for kind in ("handwritten", "scripted")
    }


def share(estimate: dict[str, Any]) -> str:
    return f"{estimate['successes']} of {estimate['trials']}"


def with_interval(estimate: dict[str, Any]) -> str:
    interval = estimate["interval"]
    return f"{estimate['value']:.3f} ({interval['low']:.3f} … {interval['high']:.3f})"


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def test_each_planted_fault_is_found_as_often_as_the_page_says(trials: dict[str, Any]) -> None:
    parts = [trials[kind]["planted"]["by_corruption"] for kind in ("handwritten", "scripted")]
    rows = [row(name, share(parts[0][name]), share(parts[1][name])) for name in parts[0]]
    assert len(rows) == 12
    assert [one for one in rows if one not in PAGE] == []


def test_recall_precision_and_noise_are_as_the_page_says(trials: dict[str, Any]) -> None:
    both = [trials["handwritten"], trials["scripted"]]
    expected = [
        row(name, *(f"{with_interval(one)} of {one['trials']}" for one in estimates))
        for name, estimates in (
            ("recall", [one["planted"]["recall"] for one in both]),
            ("precision", [one["planted"]["precision"] for one in both]),
        )
    ]
    found = [share(one["clean"]["labelled_faults_found"]) for one in both]
    strange = [share(one["clean"]["turns_with_unlabelled_findings"]) for one in both]
    expected += [
        row("labelled faults found, nothing planted", *found),
        row("turns with a finding that no label has", *strange),
        row("null edits with a new finding", *(share(one["null"]["new_findings"]) for one in both)),
    ]
    assert [one for one in expected if one not in PAGE] == []


def test_the_false_findings_are_those_that_the_page_explains(trials: dict[str, Any]) -> None:
    codes = {code for trial in trials.values() for code in trial["clean"]["unlabelled_findings"]}
    assert {code for code in codes if f"(`{code}`)" not in PAGE} == set()
    assert codes == {
        "IGNORED_CRITIQUE",
        "RUNG_COLLAPSE",
        "STANCE_SHIFT_IN_TURN",
        "SYCOPHANTIC_FLIP",
    }


def test_the_corpus_is_valid_structured_and_not_and_large_enough() -> None:
    paths = [*(CORPUS / "handwritten").glob("*.json"), *(CORPUS / "scripted").glob("*.json")]
    assert len(paths) == 40
    debates = [read_debate(path.read_bytes(), registry=REGISTRY).debate for path in paths]
    assert {debate.evaluation_mode for debate in debates} == {"posthoc", "in_loop"}
    unstructured = [one for one in debates if EVALUATORS["crit"](one).summary["rho"] is None]
    assert len(unstructured) == 3
    assert len({(debate.debate_id, debate.run_id) for debate in debates}) == 40


def test_the_scripted_debates_are_what_their_script_writes() -> None:
    script = runpy.run_path(str(CORPUS / "scripted_debates.py"))
    written = {f"{name}.json": canonical_line(one) for name, one in script["scripted_debates"]()}
    kept = {path.name: path.read_bytes() for path in (CORPUS / "scripted").iterdir()}
    assert written == kept


def test_the_table_of_the_sweep_is_what_the_plan_comes_to() -> None:
    plan = read_plan(parse_object((CORPUS / "sweep.json").read_bytes()))
    scenario = read_scenario(parse_object((CORPUS / plan.scenario).read_bytes()))
    debates = []
    for run in runs_of(plan, scenario):
        debater = ScriptedDebater(scenario, run.configuration.debaters, run.seed)
        loop = DebateRun(run.plan, counting_clock(), lambda _entry: None)
        speakers = {agent: debater for agent, _ in run.plan.participants}
        artefact = Debate.model_validate(asyncio.run(loop.run(speakers)))
        debates.append((run.configuration.name, artefact))
    names = [one.name for one in plan.configurations]
    cells: list[Any] = table(debates, scenario, names)
    assert [one for one in map(sweep_row, cells) if one not in PAGE] == []


def test_the_table_of_constructs_is_what_their_sweep_comes_to(tmp_path: Path) -> None:
    plan = CORPUS / "construct_sweep.json"
    swept = echelon("debate", "sweep", plan, "--out", tmp_path / "out", "--json", home=tmp_path)
    assert [one for one in map(sweep_row, swept.document["cells"]) if one not in PAGE] == []


def sweep_row(cell: dict[str, Any]) -> str:
    rates = [cell["per_retry"][name] for name in ("paranoia_rate", "realignment_rate")]
    net = cell["endpoints"]["net_effect"]
    return row(
        f"`{cell['configuration']}`",
        str(cell["runs"]),
        f"{cell['attempts_per_turn']:.3f}",
        f"{cell['gamma_mean']:.3f}",
        with_interval(cell["final_answers_true"]),
        *("-" if one["value"] is None else with_interval(one) for one in rates),
        "-" if net is None else f"{net:.3f}",
    )


def test_the_worked_example_is_what_crit_says() -> None:
    path = CORPUS / "handwritten" / "ferry_tickets_spring.json"
    debate = read_debate(path.read_bytes()).debate
    turns: Any = EVALUATORS["crit"](debate).turns
    names = ("gamma_mean", "theta_mean", "gamma_crit", "gamma_net", "rho")
    rows = [
        row(
            str(place),
            str(spoken.recommendation.action if spoken.recommendation else None),
            *(f"{turn[name]:.3f}" for name in names),
            "yes" if turn["threshold_pass"] else "no",
        )
        for place, (turn, spoken) in enumerate(zip(turns, debate.turns, strict=True))
    ]
    assert [one for one in rows if one not in PAGE] == []
    assert [list(EVALUATORS[name](debate).findings) for name in EVALUATORS] == [[]] * 4


def test_the_tables_of_the_theatres_are_the_published_scores() -> None:
    columns = {
        "debate.auditor": "product_debate_auditor_v1",
        "debate.auditor_formal": "product_debate_auditor_formal_v1",
        "debate.auditor_alarm": "product_debate_auditor_alarm_v1",
        "debate.team": "product_debate_team_v1",
        "debate.herd": "product_debate_herd_v1",
        "debate.reviser": "product_debate_control_v1",
        "debate.pleaser": "product_debate_pleaser_v1",
    }
    seen = []
    for head in re.findall(r"^\| criterion \| (.*) \|$", PAGE, re.MULTILINE):
        constructs = [cell.strip("` ") for cell in head.split("|")]
        table = PAGE.partition(f"| criterion | {head} |\n")[2].partition("\n\n")[0]
        scores = [
            json.loads((TEMPLATES / f"{columns[one]}.expected.json").read_bytes())["scores"]
            for one in constructs
        ]
        rows = [row(f"`{name}`", *(f"{one[name]:.3f}" for one in scores)) for name in scores[0]]
        assert sorted(table.splitlines()[1:]) == sorted(rows)
        seen += constructs
    assert seen == list(columns)


def test_the_page_lists_each_rule_and_each_code() -> None:
    listed = [line.split("|")[1].strip() for line in PAGE.splitlines() if line.startswith("| R")]
    assert listed == [*RULES, "R17", "R18"]
    package = CHECKOUT / "theatre" / "debate"
    sources = (package / "rules.py", package / "validation.py")
    written = "".join(path.read_text(encoding="utf-8") for path in sources)
    codes = set(re.findall(r'"([EW]_[A-Z0-9_]+)"', written))
    assert len(codes) >= 25
    assert {code for code in codes if f"`{code}`" not in PAGE} == set()
