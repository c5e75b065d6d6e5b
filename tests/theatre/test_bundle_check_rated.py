"""The independent check of what people gave: honest bundles pass, and no forgery of a score does.

Every forger here makes anew what follows from the forgery: files of scores, steps, results hash,
chain, sums, manifest and certificate. Only what was recomputed can tell.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.every_rating import AUTHOR, GRACE
from tests.theatre.forged_bundle import (
    Effort,
    Files,
    check,
    document,
    failed_ids,
    lines,
    load,
    rechained,
    resealed,
    store,
    with_document,
)
from tests.theatre.trail_edits import (
    Edit,
    Entry,
    again,
    author_counted,
    completed,
    dropped,
    escalated_elsewhere,
    late,
    moved,
    not_escalated,
    not_skipped,
    of,
    one_dropped,
    opened_with,
    refused_as,
    refused_counted,
    renamed,
    reordered,
    rescored,
    scored_with,
    swapped,
    told_with,
    too_early,
    unopened,
    with_ratings,
    with_results,
)
from theatre.engine.bundle_check import CheckReport
from theatre.engine.canonical_json import JsonObject

TRAIL, AGGREGATE, TASTE = "audit_trail.jsonl", "scores/aggregate.json", "hitl/taste.jsonl"


@pytest.fixture(scope="module")
def files(every_rating: Path) -> Files:
    return load(every_rating)


def checked(files: Files, folder: Path) -> CheckReport:
    """Make all hashes of a forged bundle anew and check it."""
    sealed = resealed(with_results(files), Effort.CERTIFIED_HASH)
    return check(store(sealed, folder / "bundle"))


def test_an_honest_bundle_passes_and_says_who_was_counted(files: Files, tmp_path: Path) -> None:
    assert resealed(with_results(files), Effort.CERTIFIED_HASH) == files
    assert with_ratings(files, lines(files, TRAIL)) == files
    report = checked(files, tmp_path)
    assert report.consistent
    (told,) = (line.actual for line in report.checks if line.id == "human-scores")
    assert told == "late: 0 scorers, taste: 3 scorers, after: 1 scorers"


# The trail and all that repeats it

HUMAN = {"human-scores"}
WHOLE = {"aggregate", "resolution", "certificate-fields"}
COUNTED = {*HUMAN, *WHOLE}
FEWER = {*HUMAN, "certificate-fields"}  # people whose scores do not count: a finding
# fmt: off
TOLD: list[tuple[str, Edit, set[str]]] = [
    ("a score changed", rescored, WHOLE),
    ("a scorer dropped", dropped, WHOLE),
    ("one score of a scorer dropped", one_dropped, WHOLE),
    ("the author's scores let in", renamed(AUTHOR), COUNTED),
    ("the author's scores let in in other letters", renamed("ADA author"), COUNTED),
    ("one person for two", renamed("GRACE"), COUNTED),
    ("one person for two by what shows nothing", renamed("Gr\u200bace\u3164"), COUNTED),
    ("the author's scores let in by what shows nothing", renamed("Ada\xad Author"), COUNTED),
    ("nobody", renamed(""), COUNTED),
    ("a name of which nothing shows", renamed("\u3164"), COUNTED),
    ("a name with a space behind it", renamed("Edsger "), COUNTED),
    ("a name that is no text", renamed(1), COUNTED),  # type: ignore[arg-type]  # a forger may
    ("a second score", again(GRACE), {"times", *HUMAN}),
    ("a second score in other letters", again("gRACE"), {"times", *HUMAN}),
    ("a score behind the end of its step", moved, {"audit-chain", "times", *FEWER}),
    ("a score of another step", scored_with(step_id="late"), HUMAN),
    ("a score of no item", scored_with(episode_id="pilot-6"), HUMAN),
    ("a score off the scale", scored_with(score=5.001), HUMAN),
    ("a score below the scale", scored_with(score=0), HUMAN),
    ("a score that is no number", scored_with(score="2"), HUMAN),
    ("a score that is a truth", scored_with(score=True), HUMAN),
    ("a comment that is no text", scored_with(comment=1), HUMAN),
    ("a score with a member more", scored_with(share=1), {"audit-chain"}),
    ("a score behind the time", late, {"times", *HUMAN}),
    ("an item swapped", swapped, {*COUNTED, "tier"}),
    ("items in another order", reordered, HUMAN),
    ("an item less", opened_with(items=["pilot-1"]), HUMAN),
    ("one person enough", opened_with(minimum_scorers=1), HUMAN),
    ("authors let in", opened_with(scorer_must_not_be_author=False), HUMAN),
    ("no limit", opened_with(timeout_seconds=None), HUMAN),
    ("a refused score counted", refused_counted, HUMAN),
    ("a refused author counted", author_counted, HUMAN),
    ("a score refused as off the scale", refused_as("score-off-scale"), FEWER),
    ("a score refused as no number", refused_as("score-not-a-number"), FEWER),
    ("a score refused as an author's", refused_as("scorer-is-author"), FEWER),
    ("a score refused for nothing", refused_as(""), FEWER),
    ("given up before the time", too_early, {"times", *HUMAN}),
    ("never opened", unopened, {"resolution", "certificate-fields"}),
    ("an escalation dropped", not_escalated, {"audit-chain", "resolution"}),
    ("an escalation to another step", escalated_elsewhere, {"resolution"}),
    ("a failed step completed", completed, {"resolution"}),
    ("a skipped step that nobody tells of", not_skipped, {"resolution"}),
    ("another reason", told_with("late", reason="output-spec"), {"resolution"}),
    ("another number of people", told_with("late", error_detail="got 1"), {"resolution"}),
    ("a failure led elsewhere", told_with("late", escalated_to="after"), {"resolution"}),
    ("a misfit of another reason", told_with("provenance", reason="output-not-json"),
     {"resolution"}),
    ("a misfit at no place", told_with("provenance", error_detail="it does not"), {"resolution"}),
    ("another human mean", told_with("taste", human_mean=0.7), {"resolution"}),
    ("more people", told_with("after", scorers=2), {"resolution"}),
]
# fmt: on


@pytest.mark.parametrize(("edit", "failed"), [pytest.param(*case[1:], id=case[0]) for case in TOLD])
def test_a_trail_that_tells_what_was_not_so_is_named(
    files: Files, tmp_path: Path, edit: Edit, failed: set[str]
) -> None:
    entries = cast("list[Entry]", lines(files, TRAIL))
    edit(entries)
    report = checked(with_ratings(files, cast("list[JsonObject]", entries)), tmp_path)
    assert failed_ids(report) == failed


def test_authors_that_the_beginning_does_not_name_for_each_construct_are_named(
    files: Files, tmp_path: Path
) -> None:
    for number, authors in enumerate([None, {}, {"pilot": 1}, {"pilot": None, "other": "Bob"}]):
        entries = cast("list[Entry]", lines(files, TRAIL))
        of(entries, "activated")[0]["detail"]["authors"] = authors
        forged = rechained(files, cast("list[JsonObject]", entries))
        assert failed_ids(checked(forged, tmp_path / str(number))) == {"audit-chain"}


def test_a_scorer_who_is_named_as_the_author_of_a_construct_counts_no_more(
    files: Files, tmp_path: Path
) -> None:
    entries = cast("list[Entry]", lines(files, TRAIL))
    of(entries, "activated")[0]["detail"]["authors"] = {"pilot": " niklaus"}
    forged = rechained(files, cast("list[JsonObject]", entries))
    assert failed_ids(checked(forged, tmp_path)) == COUNTED


# The files of scores


def in_file(edit: Callable[[list[bytes]], object]) -> Callable[[Files], Files]:
    def forge(files: Files) -> Files:
        raw_lines = files[TASTE].splitlines(keepends=True)
        edit(raw_lines)
        return files | {TASTE: b"".join(raw_lines)}

    return forge


def exchange(raw_lines: list[bytes]) -> None:
    raw_lines[0], raw_lines[1] = raw_lines[1], raw_lines[0]


def spaced(raw_lines: list[bytes]) -> None:
    raw_lines[0] = raw_lines[0].replace(b'":', b'": ')


# fmt: off
FILES: list[tuple[str, Callable[[Files], Files], set[str]]] = [
    ("lines in another order", in_file(exchange), HUMAN),
    ("a line less", in_file(lambda raw: raw.pop()), HUMAN),
    ("a line more", in_file(lambda raw: raw.append(raw[0])), HUMAN),
    ("no lines", in_file(lambda raw: raw.clear()), HUMAN),
    ("no JSON", in_file(lambda raw: raw.append(b"no\n")), HUMAN),
    ("another form", in_file(spaced), {"canonical-form"}),
    ("no file", lambda files: {n: raw for n, raw in files.items() if n != TASTE},
     {"inventory", "human-scores", "tier"}),
    ("a file of no step", lambda files: files | {"hitl/never.jsonl": b""}, {"inventory", "tier"}),
    ("a file beside them", lambda files: files | {"hitl/taste.json": b"{}\n"},
     {"inventory", "tier"}),
]
# fmt: on


@pytest.mark.parametrize(
    ("forge", "failed"), [pytest.param(*case[1:], id=case[0]) for case in FILES]
)
def test_a_file_of_scores_that_is_not_what_the_trail_tells_is_named(
    files: Files, tmp_path: Path, forge: Callable[[Files], Files], failed: set[str]
) -> None:
    assert failed_ids(checked(forge(files), tmp_path)) == failed


# What the scores come to


def put(place: str, value: object) -> Callable[[JsonObject], None]:
    def edit(aggregate: JsonObject) -> None:
        *parents, last = place.split("/")
        target: Any = aggregate
        for key in parents:
            target = target[key]
        assert last in target
        target[last] = value

    return edit


# fmt: off
RESULTS = [
    ("scores/colour", 0.730048077),  # half of the share
    ("scores/colour", 0.651682692),  # the share applied twice
    ("scores/colour", 0.769230769),  # the machine mean alone
    ("composite_score", 0.769230769),
    ("answered_only/colour", 0.8),
    ("refusals_as_zero/colour", 0.7),
    ("worst_case_bounds/colour/low", 0.6),
    ("worst_case_bounds/composite_score/high", 0.9),
    ("human_scores/taste/human", 0.7),
    ("human_scores/taste/machine", 0.7),
    ("human_scores/taste/share", 0.25),
    ("human_scores/taste/items", 9),
    ("human_scores/taste/scorers", 4),
    ("human_scores/taste/criterion_id", "recall"),
    ("human_scores/taste/agreement/value", 0.9),
    ("human_scores/taste/agreement/reason", "no-variation"),
    ("human_scores/taste/agreement/method", "cohen"),
    ("human_scores/late/human", 0.5),
    ("human_scores/late/agreement/reason", "fewer-than-2-scorers"),
    ("human_scores", None),
    ("score_intervals/colour/low", 0.6),
    ("score_intervals/colour/method", "clt"),
    ("score_intervals/composite_score/high", 0.85),
]
# fmt: on


@pytest.mark.parametrize(("place", "value"), RESULTS)
def test_a_result_that_does_not_follow_from_the_scores_is_named(
    files: Files, tmp_path: Path, place: str, value: object
) -> None:
    aggregate = document(files, AGGREGATE)
    put(place, value)(aggregate)
    report = checked(with_document(files, AGGREGATE, aggregate), tmp_path)
    repeated_in = {"resolution", "certificate-fields"}
    assert failed_ids(report) - repeated_in == {"aggregate"}
