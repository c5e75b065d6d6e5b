"""The table of adversaries: each row is carried out, and ends as the table says.

`make test` tries five of those that answer on one template of each family, `make soak-adversaries`
all of them on all templates that are shipped.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.theatre.adversary_attacks import ATTACKS
from tests.theatre.thinned import FIXTURES, thinned
from theatre.cli.adversaries.command import Trial
from theatre.cli.adversaries.leak import Leak, leak_of
from theatre.cli.adversaries.rehearsing import Rehearsals, Rehearsed
from theatre.cli.adversaries.table import Kind, adversaries, generic, paid, programs
from theatre.cli.template_files import read_template
from theatre.cli.workspace import Workspace
from theatre.engine.templates import ProductTheatreTemplate, product_template
from theatre.engine.tier_assigner import VerificationTier

pytestmark = pytest.mark.untraced

SOAK = os.environ.get("ECHELON_SOAK_ADVERSARIES") == "1"
TEMPLATES = FIXTURES / "templates"
FAMILIES = {
    "product_cartograph_v1": 4,
    "product_observer_v1": 2,
    "product_easel_v1": 2,
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
ROWS = {one.name: one for one in adversaries()}
ANSWERING = {one.name: one for one in generic() if SOAK or one.name in FIRST_FIVE}


class Prepared(NamedTuple):
    """A template with what its construct would get, and with what leaked of it."""

    rehearsals: Rehearsals
    view: ProductTheatreTemplate
    construct: Rehearsed
    leak: Leak


def prepared(name: str, folder: Path, step: int) -> Prepared:
    template = thinned(read_template(TEMPLATES / f"{name}.json"), folder / "data", step=step)
    home = folder / "home"
    home.mkdir()
    workspace = Workspace.from_environment({"ECHELON_HOME": str(home)})
    rehearsals = Rehearsals(template=template, folder=folder / "data", workspace=workspace)
    construct, view = rehearsals.of_construct(lambda _: None), product_template(template)
    roots = workspace.datasets_for(folder / "data")
    leak = leak_of(template, view, roots, construct.recorded)
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


@pytest.mark.parametrize("name", [name for name in ROWS if name in ATTACKS])
def test_an_attack_ends_as_its_row_says(tmp_path: Path, name: str) -> None:
    assert ATTACKS[name](tmp_path) == ROWS[name].ends


def test_every_row_is_carried_out_by_a_program_or_by_an_attack() -> None:
    for name, row in ROWS.items():
        ways = [row.kind is Kind.ANSWERS, name in ATTACKS, row.tested is not None]
        assert ways.count(True) == 1, name
        assert row.tested is None or (FIXTURES.parent / row.tested).is_file(), name
        assert row.program is None or (programs() / row.program).is_file(), name
    waiting = {one.name for one in adversaries(pending=True)}
    assert ATTACKS.keys() <= ROWS.keys() | waiting
    assert not waiting & ROWS.keys()


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
