"""Salad, lies, prose and the shipped oracle on this project's own history: words give no tier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.theatre.forked_echelon import forked
from tests.theatre.verification.test_oracle_ranking import CHECKOUT, MEASURED_TO, is_whole_clone

pytestmark = pytest.mark.untraced

ADVERSARIES = CHECKOUT / "fixtures" / "adversaries"
PROGRAMS = ("keyword_salad", "glued_lies", "true_prose")
CAPS = [f"measure-unqualified:{name}" for name in ("precision", "recall", "reply_accuracy")]


class Measured(NamedTuple):
    """What came of one oracle: the end of the command, and the certificate in short."""

    ended: dict[str, Any]
    certificate: dict[str, Any]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Measured]:
    if not is_whole_clone():
        pytest.skip("this copy of the project has not the history that oracles are measured on")
    folder = tmp_path_factory.mktemp("adversaries")
    read = ("--repo", str(CHECKOUT), "--range", MEASURED_TO, "--limit", "50")
    assert forked("ingest", *read, "--output", folder / "data", home=folder / "home").code == 0
    return {name: run_of(name, folder) for name in (*PROGRAMS, "change_extractive")}


def run_of(name: str, folder: Path) -> Measured:
    shipped = name.startswith("change_")
    named = f"construct:{name}" if shipped else f"change_summaries:{name}"
    given = ("--construct", named, "--folder", str(ADVERSARIES), "--output", folder / name)
    scored = ("--judge", "lexical", "--json")
    answer = forked("verify", "--data", folder / "data", *given, *scored, home=folder / "home")
    certificate = json.loads((folder / name / "verification_certificate.json").read_bytes())
    return Measured(answer.document, certificate)


def test_none_of_them_reads_above_unverified(measured: dict[str, Measured]) -> None:
    for ended, certificate in measured.values():
        assert (ended["verification_tier"], ended["caps"]) == ("UNVERIFIED", CAPS)
        assert (certificate["verification_tier"], certificate["caps"]) == ("UNVERIFIED", CAPS)
        assert ended["check"]["verdict"] == "consistent"


def test_their_scores_stay_published_and_salad_lies_above_truth(
    measured: dict[str, Measured],
) -> None:
    scores = {name: one.ended["scores"] for name, one in measured.items()}
    # A lie behind every claim costs nothing: the words of the claim are all that is read.
    assert scores["glued_lies"] == scores["change_extractive"]
    assert scores["true_prose"] == {"precision": 0, "recall": 0, "reply_accuracy": 1}
    assert scores["keyword_salad"]["precision"] > scores["change_extractive"]["precision"]
    assert scores["keyword_salad"]["recall"] > 0.5
