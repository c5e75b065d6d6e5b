"""The labelled changes are what their README says: real diffs, counted kinds, no give-away form."""

import math
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from typing import Any

import pytest

from tests.theatre.echelon_process import REPOSITORY
from tests.theatre.labelled_changes import (
    FOLDER,
    SUPPORTED,
    VERDICTS,
    Agreement,
    agreement,
    agreements,
    halves,
    judged_twice,
    read,
)

KINDS = {
    "plain": SUPPORTED,
    "paraphrase": SUPPORTED,
    "plain_lie": "contradicted",
    "wrong_number": "contradicted",
    "negation": "contradicted",
    "swapped_subjects": "contradicted",
    "absent": "not_in_change",
    "half_true": "half_true",
}
SHARES = {SUPPORTED: 0.40, "contradicted": 0.30, "not_in_change": 0.15, "half_true": 0.15}
FOLDS = 10
a_half = pytest.mark.parametrize("half", halves())
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@cache
def claims(half: str) -> list[dict[str, Any]]:
    return read(f"claims_{half}.jsonl")


def hunks(diff: str) -> dict[str, list[str]]:
    """Return the hunks of each file of a diff, by the line that names the file."""
    found = {}
    for part in re.split(r"(?m)^(?=diff --git )", diff)[1:]:
        header, *bodies = re.split(r"(?m)^(?=@@ )", part)
        found[header.splitlines()[0]] = bodies
    return found


@cache
def shown(commit: str) -> str | None:
    """Return what `git show` says a commit changed; None where this checkout lacks its history."""
    run = subprocess.run(
        ["git", "show", "--format=", "--no-color", "--no-ext-diff", commit],
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    return run.stdout.decode("utf-8", "backslashreplace") if run.returncode == 0 else None


@a_half
def test_a_half_has_fifty_changes_and_six_claims_about_each(half: str) -> None:
    changes = read(f"changes_{half}.jsonl")
    assert len({change["change_id"] for change in changes}) == len(changes) == 50
    about = Counter(claim["change_id"] for claim in claims(half))
    assert about == {change["change_id"]: 6 for change in changes}
    for change in changes:
        assert change.keys() == {"change_id", "commit", "subject", "diff"}
        assert change["subject"] is None
        assert 8 <= len(change["diff"].splitlines()) <= 60, change["change_id"]
        assert len(hunks(change["diff"])) in {1, 2}, change["change_id"]


def test_ids_and_sentences_are_unique_in_all_halves() -> None:
    every = [claim for half in halves() for claim in claims(half)]
    assert len({claim["claim_id"] for claim in every}) == len(every)
    assert len({claim["claim"].casefold() for claim in every}) == len(every)
    assert all(claim["claim_id"].startswith(f"{claim['change_id']}-") for claim in every)
    diffs = [change["diff"] for half in halves() for change in read(f"changes_{half}.jsonl")]
    assert len(set(diffs)) == len(diffs)


@a_half
def test_the_kind_of_a_claim_agrees_with_its_verdict(half: str) -> None:
    for claim in claims(half):
        assert claim.keys() == {"claim_id", "change_id", "claim", "verdict", "kind"}
        assert KINDS[claim["kind"]] == claim["verdict"], claim["claim_id"]
        assert 12 <= len(claim["claim"].split()) <= 35, claim["claim_id"]


@a_half
def test_the_shares_of_verdicts_and_kinds_are_those_of_the_readme(half: str) -> None:
    kinds = Counter(claim["kind"] for claim in claims(half))
    for verdict, share in SHARES.items():
        of_verdict = {kind: n for kind, n in kinds.items() if KINDS[kind] == verdict}
        assert sum(of_verdict.values()) / len(claims(half)) == pytest.approx(share, abs=0.03)
        assert max(of_verdict.values()) - min(of_verdict.values()) <= 10, of_verdict
    assert kinds.keys() == KINDS.keys()


@needs_git
@a_half
def test_each_diff_is_whole_hunks_of_this_history(half: str) -> None:
    for change in read(f"changes_{half}.jsonl"):
        real = shown(change["commit"])
        if real is None:
            pytest.skip(f"this checkout has no {change['commit']}: a shallow clone, or no clone")
        of_commit = hunks(real)
        for name, bodies in hunks(change["diff"]).items():
            assert bodies, change["change_id"]
            assert set(bodies) <= set(of_commit[name]), change["change_id"]


def form(sentence: str) -> Sequence[str]:
    """Return what a reader of form alone would see: the length, and the first word."""
    words = sentence.split()
    return (f"words {len(words) // 3}", f"characters {len(sentence) // 15}", words[0].lower())


def told_by_form(known: Sequence[tuple[str, bool]]) -> float:
    """Return the balanced accuracy of a naive Bayes classifier that reads nothing but the form.

    Each item is a sentence and its label. The folds are drawn by the sentence's hash.
    """
    placed = [
        (int(sha256(sentence.encode()).hexdigest(), 16) % FOLDS, form(sentence), label)
        for sentence, label in known
    ]
    right, total = Counter[bool](), Counter[bool](label for _, _, label in placed)
    for fold in range(FOLDS):
        seen = {label: Counter[str]() for label in (True, False)}
        size = Counter[bool](label for at, _, label in placed if at != fold)
        for at, features, label in placed:
            if at != fold:
                seen[label].update(features)
        for at, features, label in placed:
            if at == fold:
                odds = sum(
                    math.log((seen[True][one] + 1) / (size[True] + 2))
                    - math.log((seen[False][one] + 1) / (size[False] + 2))
                    for one in features
                )
                right[label] += (odds > 0) == label
    return sum(right[label] / total[label] for label in (True, False)) / 2


@pytest.mark.parametrize("verdict", VERDICTS)
@a_half
def test_length_and_first_word_do_not_tell_the_verdict(half: str, verdict: str) -> None:
    known = [(claim["claim"], claim["verdict"] == verdict) for claim in claims(half)]
    assert told_by_form(known) < 0.6


def test_the_reader_of_form_finds_a_form_that_does_tell() -> None:
    known = [
        (f"{'Never' if claim['verdict'] == 'contradicted' else 'Always'} {claim['claim']}", lie)
        for claim in claims(halves()[0])
        for lie in [claim["verdict"] == "contradicted"]
    ]
    assert told_by_form(known) > 0.9


def spread(table: Sequence[Sequence[int]]) -> Iterable[tuple[int, int]]:
    return (
        (one, other)
        for one, row in enumerate(table)
        for other, times in enumerate(row)
        for _ in range(times)
    )


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        # By hand: 35 of 50 agree; by chance (25 * 30 + 25 * 20) / 2500 = 0.5.
        ([[20, 5], [10, 15]], Agreement(50, 0.7, 0.4)),
        ([[5, 0, 0], [0, 3, 0], [0, 0, 2]], Agreement(10, 1.0, 1.0)),
        ([[0, 5], [5, 0]], Agreement(10, 0.0, -1.0)),
        ([[4]], Agreement(4, 1.0, None)),
    ],
)
def test_agreement_of_two_passes_is_raw_and_beyond_chance(
    table: Sequence[Sequence[int]], expected: Agreement
) -> None:
    assert agreement(spread(table)) == pytest.approx(expected)


def test_nothing_that_was_judged_once_agrees_with_itself() -> None:
    with pytest.raises(ValueError, match="got none"):
        agreement([])


@a_half
def test_a_second_pass_judges_every_claim_of_its_half_once(half: str) -> None:
    pairs = judged_twice(half)
    if not pairs:
        pytest.skip(f"no second pass of half {half} yet")
    second = read(f"second_pass_{half}.jsonl")
    assert sorted(line["claim_id"] for line in second) == sorted(
        claim["claim_id"] for claim in claims(half)
    )
    assert all(line.keys() == {"claim_id", "verdict"} for line in second)
    assert {line["verdict"] for line in second} <= set(VERDICTS)
    assert {found.n for found in agreements(pairs).values()} == {len(claims(half))}


def test_every_second_pass_belongs_to_claims_or_waits_for_them() -> None:
    """The halves are written apart: a pass may come before the claims that it judged."""
    for path in FOLDER.glob("second_pass_*.jsonl"):
        lines = read(path.name)
        assert len({line["claim_id"] for line in lines}) == len(lines)
        assert {line["verdict"] for line in lines} <= set(VERDICTS)
