"""Salad, lies, prose and the shipped oracle on this project's own history: words give no tier."""

import importlib
import json
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.forked_echelon import forked
from tests.theatre.verification.oracle_scores import Oracle, scores_of, shipped_oracle
from tests.theatre.verification.test_oracle_ranking import (
    CHECKOUT,
    MEASURED_TO,
    is_whole_clone,
    own_history,
)

ADVERSARIES = CHECKOUT / "fixtures" / "adversaries"
PROGRAMS = ("keyword_salad", "glued_lies", "true_prose")
THROUGH_THE_LINE = (
    (*PROGRAMS, "change_extractive") if os.environ.get("ECHELON_SOAK") == "1" else PROGRAMS[:2]
)
"""A whole run each: the two of the table of adversaries, all for `make soak`."""
CAPS = [f"measure-unqualified:{name}" for name in ("precision", "recall", "reply_accuracy")]


@pytest.fixture(scope="module")
def ground_truth(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not is_whole_clone():
        pytest.skip("this copy of the project has not the history that oracles are measured on")
    folder = tmp_path_factory.mktemp("adversaries")
    read = ("--repo", str(CHECKOUT), "--range", MEASURED_TO, "--limit", "50")
    assert forked("ingest", *read, "--output", folder / "data", home=folder / "home").code == 0
    return folder / "data"


@pytest.mark.parametrize("name", THROUGH_THE_LINE)
def test_words_alone_read_unverified_whoever_writes_them(name: str, ground_truth: Path) -> None:
    named = f"construct:{name}" if name.startswith("change_") else f"change_summaries:{name}"
    given = ("--construct", named, "--folder", str(ADVERSARIES), "--judge", "lexical", "--json")
    home = ground_truth.parent / name
    ended: Any = forked("verify", "--data", ground_truth, *given, home=home).document
    certificate = json.loads(Path(ended["verification_certificate"]).read_bytes())
    assert (ended["replay_count"], ended["check"]["verdict"]) == (50, "valid, logged")
    assert (ended["verification_tier"], ended["caps"]) == ("UNVERIFIED", CAPS)
    assert (certificate["verification_tier"], certificate["caps"]) == ("UNVERIFIED", CAPS)
    assert certificate["composite_score"] > 0.3


def adversary(name: str) -> Oracle:
    if str(ADVERSARIES) not in sys.path:
        sys.path.append(str(ADVERSARIES))
    oracle: Oracle = getattr(importlib.import_module("change_summaries"), name)
    return oracle


@cache
def means(name: str) -> dict[str, float]:
    oracle = shipped_oracle("extractive") if name == "extractive" else adversary(name)
    found = scores_of(oracle, own_history())
    return {criterion: round(sum(s) / len(s) / 1e9, 3) for criterion, s in found.items()}


def test_a_lie_behind_every_true_claim_costs_nothing() -> None:
    assert scores_of(adversary("glued_lies"), own_history()) == scores_of(
        shipped_oracle("extractive"), own_history()
    )


def test_the_figures_on_the_page_are_those_of_this_history() -> None:
    page = (CHECKOUT / "docs" / "verification.md").read_text(encoding="utf-8")
    of_words = page.partition("## What words cannot tell")[2]
    for criterion in ("precision", "recall", "reply_accuracy"):
        (row,) = [line for line in of_words.splitlines() if line.startswith(f"| {criterion} ")]
        shown = [cell.split()[0] for cell in row.split("|")[2:-1]]
        assert shown == [f"{means(name)[criterion]:.3f}" for name in (*PROGRAMS, "extractive")]
