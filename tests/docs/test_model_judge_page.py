"""`docs/models.md` on the model as a judge: its figures follow from what is sealed."""

import json
from pathlib import Path

import pytest

from tests.model_judge import CLAIMS, MEASURES, row, table, write_labelled
from tests.sealed_evidence import JUDGE, ROOT, unpacked
from theatre.api.qualifications import check_qualification, read_labelled_files
from theatre.engine.bundle_check import CheckStatus
from theatre.scorers import load_scorers

PAGE = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(JUDGE, tmp_path_factory.mktemp("judge"))


def test_the_table_is_that_of_the_qualifications(kept: Path) -> None:
    documents = [json.loads((kept / f"{one}.json").read_bytes()) for one in MEASURES]
    assert f"{table()}\n" in PAGE
    assert "".join(map(row, documents)) in table()
    assert [one["labelled_set"]["claims"] for one in documents] == [CLAIMS, CLAIMS]


def test_the_claims_are_the_drawn_ones_of_the_shipped_set(kept: Path, tmp_path: Path) -> None:
    write_labelled(tmp_path / "labelled", CLAIMS)
    for name in ("claims", "changes"):
        drawn = (tmp_path / "labelled" / f"{name}.jsonl").read_bytes()
        assert (kept / "labelled" / f"{name}.jsonl").read_bytes() == drawn


@pytest.mark.parametrize("measure", MEASURES)
def test_each_figure_is_counted_again_from_the_recorded_answers(kept: Path, measure: str) -> None:
    labelled = read_labelled_files([kept / "labelled"])
    report = check_qualification(kept / f"{measure}.json", load_scorers(), labelled=labelled)
    found = {one.id: one.status for one in report.checks}
    assert (found["figures"], found["labelled-set"]) == (CheckStatus.PASS, CheckStatus.PASS)
    # Answers are read again by the version that asked for them; a later one does not.
    said = json.loads((kept / f"{measure}.json").read_bytes())["measure"]["version"]
    is_installed = load_scorers()[measure].version == said
    wanted = CheckStatus.PASS if is_installed else CheckStatus.UNANCHORED
    assert found["measured"] == wanted
