"""Who rewrites a record, the trail and every hash can change only what no bundle could settle.

The mutants of `test_bundle_mutations` are caught by the digests in the trail; here the forger
makes those anew, and only the rules about records are left. ECHELON_TEST_MUTANTS as there: a
mutant for every place in any case, all of them with `all`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.theatre.bundle_mutants import Mutant, mutants
from tests.theatre.every_feature import run_every_feature
from tests.theatre.every_rating import run_every_rating
from tests.theatre.forged_bundle import (
    Effort,
    Files,
    lines,
    load,
    records_of,
    resealed,
    store,
    with_records,
)
from tests.theatre.mutation_survivors import chosen, failed_when
from tests.theatre.trail_edits import with_ratings, with_results
from theatre.engine.errors import ParseError

pytestmark = pytest.mark.untraced

TRAIL = "audit_trail.jsonl"

ISSUERS_WORD = {
    f"invocations/*/calls/*/{place}"
    for place in (
        "attempts/*/raw",
        "attempts/*/reason",
        "attempts/*/response/construct_id",
        "attempts/*/response/construct_version",
        "attempts/*/response/error_detail",
        "attempts/*/response/latency_ms",
        "attempts/*/response/output_data",
        "attempts/*/response/output_data/again",
        "attempts/*/response/output_data/colour",
        "attempts/*/response/output_data/recall",
        "attempts/*/response/responded_at",
        "attempts/*/response/status",
        "attempts/*/stderr",
        "request/metadata/invoked_at",
        "version_source",
    )
}
"""What a construct answered, how it failed, and when: in a record that scores nothing, or the
same, each of them is the issuer's word. All that was *asked* follows from what was committed.
"""


TOLD_OF_PEOPLE = ("hitl_opened", "human_score", "human_score_refused", "step_", "escalated")
ISSUERS_WORD_ON_PEOPLE = {
    f"audit_trail.jsonl/{place}"
    for place in (
        "escalated/at",
        "hitl_opened/at",
        "human_score/at",
        "human_score/detail/comment",
        "human_score/detail/score",
        "human_score/detail/scorer",
        "human_score_refused/at",
        "human_score_refused/detail/episode_id",
        "human_score_refused/detail/score",
        "human_score_refused/detail/scorer",
        "human_score_refused/detail/step_id",
        "step_completed/at",
        "step_failed/at",
        "step_failed/detail/result/error_detail",
        "step_skipped/at",
    )
}
"""Times, comments, what was refused, and the score and name of somebody who counts nowhere: the
issuer's word. The detail of a misfit is so but for the place in it.
"""
UNDENIED = {(f"{TRAIL}/human_score_refused/detail/code", "another word")}
"""Refused as `not-an-item` though it names one: the id may have been another before it was cleaned.
Every other word in that place is found out.
"""


@pytest.fixture(scope="module")
def rated_files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return load(run_every_rating(tmp_path_factory.mktemp("ratings")))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return load(run_every_feature(tmp_path_factory.mktemp("features")))


def retold(files: Files, mutant: Mutant) -> Files | None:
    """Return the whole forgery; None where there is none: a record that no trail could report."""
    forged = mutant.edit(files)
    try:
        return resealed(with_records(forged, records_of(forged)), Effort.CERTIFIED_HASH)
    except (AttributeError, KeyError, IndexError, StopIteration, TypeError):
        return None


def in_records(files: Files) -> Sequence[Mutant]:
    """Return the mutants of a value in a record, but those of its bytes, which are made anew."""
    return [one for one in mutants(files) if one.place.startswith("invocations/*/")]


@pytest.mark.no_cover  # tracing would double the time, and shows nothing that others do not
def test_what_was_asked_cannot_be_changed_even_with_a_trail_to_match(
    files: Files, tmp_path: Path
) -> None:
    folder = store(files, tmp_path / "bundle")
    survivors = set()
    tried = set()
    for mutant in chosen(in_records(files), at_least=0):
        forged = retold(files, mutant)
        if forged is None or forged == files:
            continue
        tried.add(mutant.place)
        if not failed_when(folder, files, forged):
            survivors.add(mutant.place)
    assert survivors - ISSUERS_WORD == set()
    assert "invocations/*/calls/*/request/input_data/upstream/reader/heard" in tried


def retold_of_people(files: Files, mutant: Mutant) -> Files | None:
    """Return the bundle whose trail says so, with files, steps and hashes to match, if it can."""
    try:
        forged = with_ratings(files, lines(mutant.edit(files), TRAIL))
        return resealed(with_results(forged), Effort.CERTIFIED_HASH)
    except (AttributeError, KeyError, ParseError, TypeError):
        return None


@pytest.mark.no_cover
def test_what_people_were_asked_and_what_came_of_it_cannot_be_changed_with_a_trail_to_match(
    rated_files: Files, tmp_path: Path
) -> None:
    folder = store(rated_files, tmp_path / "bundle")
    survivors = set()
    tried = set()
    about = tuple(f"{TRAIL}/{event}" for event in TOLD_OF_PEOPLE)
    told = [one for one in mutants(rated_files) if one.place.startswith(about)]
    for mutant in chosen(told, at_least=0):
        forged = retold_of_people(rated_files, mutant)
        if forged is None or forged == rated_files:
            continue
        tried.add(mutant.place)
        if not failed_when(folder, rated_files, forged):
            survivors.add((mutant.place, mutant.kind))
    assert {place for place, _ in survivors - UNDENIED} - ISSUERS_WORD_ON_PEOPLE == set()
    assert f"{TRAIL}/human_score/detail/score" in tried
