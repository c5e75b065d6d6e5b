"""The table of adversaries: each row is carried out, and ends as the table says.

`make test` tries five of those that answer on one template, `make soak-data` on one of every other
family, `make soak-adversaries` all of them on all templates that are shipped.
"""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.theatre.adversary_attacks import ATTACKS, judged
from tests.theatre.runs import Stage, ticking_clock
from tests.theatre.thinned import FIXTURES, thinned
from theatre.api.template_files import read_template
from theatre.api.workspace import Workspace
from theatre.cli.adversaries.command import Trial
from theatre.cli.adversaries.rehearsal import (
    COMPOSITE,
    Kind,
    Leak,
    RehearsalResult,
    Rehearsals,
    generic_adversaries,
    known_adversaries,
    make_leak,
    paid,
    programs_folder,
    with_programs,
    write_adversary,
)
from theatre.engine.templates import ProductTheatreTemplate, product_template
from theatre.engine.tier_assigner import VerificationTier
from theatre.oracles.construct_registry import ConstructRegistry, local_adapter_for

SOAK = os.environ.get("ECHELON_SOAK_ADVERSARIES") == "1"
TEMPLATES = FIXTURES / "templates"
FAMILIES = {
    "product_cartograph_v1": 4,
    "product_observer_v1": 2,
    "product_easel_v1": 8,
    "product_axion_pair_v1": 13,
    "product_axion_v1": 13,
    "product_debate_auditor_v1": 2,
    "product_debate_control_v1": 1,
    "product_debate_team_v1": 4,
}
"""A template of each family, and of how many episodes one is asked."""

ALL = {path.stem: 1 for path in sorted(TEMPLATES.glob("product_*_v1.json"))}
TRIED = ALL if SOAK else FAMILIES
FIRST_FIVE = ("empty", "garbage", "constant", "copied", "memorised")
ROWS = {one.name: one for one in known_adversaries()}
ANSWERING = {one.name: one for one in generic_adversaries() if SOAK or one.name in FIRST_FIVE}


class Prepared(NamedTuple):
    """A template with what its construct would get, and with what leaked of it."""

    rehearsals: Rehearsals
    view: ProductTheatreTemplate
    construct: RehearsalResult
    leak: Leak


def prepared(name: str, folder: Path, step: int) -> Prepared:
    template = thinned(read_template(TEMPLATES / f"{name}.json"), folder / "data", step=step)
    home = folder / "home"
    home.mkdir()
    workspace = Workspace.from_environment({"ECHELON_HOME": str(home)})
    rehearsals = Rehearsals(template=template, folder=folder / "data", workspace=workspace)
    construct, view = rehearsals.of_construct(lambda _: None), product_template(template)
    roots = workspace.datasets_for(folder / "data")
    leak = make_leak(template, view, roots, construct.recorded)
    return Prepared(rehearsals, view, construct, leak)


@pytest.fixture(scope="module")
def prepare(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Prepared]:
    """Rehearse the honest construct of a template, each template once."""
    done: dict[str, Prepared] = {}

    def once(name: str) -> Prepared:
        if name not in done:
            done[name] = prepared(name, tmp_path_factory.mktemp(name), TRIED[name])
        return done[name]

    return once


@pytest.mark.parametrize("who", ANSWERING)
@pytest.mark.parametrize("name", TRIED)
def test_who_knows_nothing_stays_below_the_construct(
    prepare: Callable[[str], Prepared], name: str, who: str
) -> None:
    rehearsals, view, construct, leak = prepare(name)
    found = rehearsals.of_adversary(ROWS[who], leak, lambda _: None)
    trial = Trial(weights=view.criteria.weights, construct=construct, found={ROWS[who]: found})
    paid_to = [one.criteria for one in paid() if one.template == name and who in one.to]
    assert set(trial.met(found)) <= {criterion for criteria in paid_to for criterion in criteria}
    assert not list(rehearsals.workspace.home.rglob("certificate.json"))


@pytest.mark.parametrize("who", FIRST_FIVE)
def test_what_is_foretold_is_what_a_certificate_would_say(
    prepare: Callable[[str], Prepared], tmp_path: Path, who: str
) -> None:
    """Each is really certified, and the bundle checked: tier, caps and scores are as rehearsed."""
    shared, _, _, leak = prepare("product_cartograph_v1")
    (home := tmp_path / "rehearsals").mkdir()
    rehearsals = replace(shared, workspace=replace(shared.workspace, home=home))
    foretold = rehearsals.of_adversary(ROWS[who], leak, lambda _: None)
    write_adversary(tmp_path / who, ROWS[who], ["cartograph"], leak)
    program = ConstructRegistry.load(tmp_path / who / "constructs.toml").find("cartograph")
    template = with_programs(rehearsals.template, tmp_path / who)
    stage = Stage(tmp_path, template, data=rehearsals.folder)
    adapter = local_adapter_for(program, clock=ticking_clock(), monotonic=time.monotonic)
    finished = stage.run(adapter)
    certificate: Any = finished.document("certificate.json")
    assert judged(finished.bundle).startswith("consistent")
    assessment: Any = finished.document("tier.json")["assessment"]
    assert (assessment["tier"], tuple(assessment["caps"])) == (foretold.tier, foretold.caps)
    scores = {**certificate["scores"], COMPOSITE: certificate[COMPOSITE]}
    assert {name: one.value for name, one in foretold.scores.items()} == scores


@pytest.mark.parametrize("name", [name for name in ROWS if name in ATTACKS])
def test_an_attack_ends_as_its_row_says(tmp_path: Path, name: str) -> None:
    assert ATTACKS[name](tmp_path) == ROWS[name].ends


def test_every_row_is_carried_out_by_a_program_or_by_an_attack() -> None:
    for name, row in ROWS.items():
        ways = [row.kind is Kind.ANSWERS, name in ATTACKS, row.tested is not None]
        assert ways.count(True) == 1, name
        assert row.tested is None or (FIXTURES.parent / row.tested).is_file(), name
        assert row.program is None or (programs_folder() / row.program).is_file(), name
    assert ATTACKS.keys() <= ROWS.keys()


def test_every_guard_and_every_rule_is_a_place_that_there_is() -> None:
    for row in ROWS.values():
        page, _, anchor = row.rule.partition("#")
        text = (FIXTURES.parent / "docs" / page).read_text(encoding="utf-8").lower()
        heads = {line.lstrip("# ").replace(" ", "-") for line in text.splitlines() if "# " in line}
        assert (FIXTURES.parent / row.guard).exists(), row.name
        assert not anchor or anchor in heads, row.name


def test_a_rehearsal_that_is_worth_nothing_would_be_no_certificate(
    prepare: Callable[[str], Prepared],
) -> None:
    construct = prepare("product_debate_control_v1").construct
    assert construct.tier is VerificationTier.BACKTESTED
    assert construct.is_certified
    assert construct.scores["turned_and_kept"].value == 0.7
