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
from tests.theatre.forged_bundle import (
    Effort,
    Files,
    load,
    records_of,
    resealed,
    store,
    with_records,
)
from tests.theatre.mutation_survivors import chosen, failed_when

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
