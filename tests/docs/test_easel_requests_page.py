"""`docs/easel-requests.md`: each of its numbers is the one that a run brings."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.easel_requests_runs import Asked, asked, outcomes, run_fake, run_requests
from tests.theatre.fixtures.test_easel_requests import LISTED
from tests.theatre.runs import Finished

CHECKOUT = Path(__file__).parents[2]
PAGE = (CHECKOUT / "docs" / "easel-requests.md").read_text(encoding="utf-8")
FLAT = PAGE.replace("\n", " ")
OUTCOMES = ("right", "another", "outside", "unheard")
OF_ASSETS = ("layout-unlisted", "motion-in-print", "moves-in-part", "raster", "stands-still")


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run_requests(tmp_path_factory.mktemp("honest"))


@pytest.fixture(scope="module")
def episodes(honest: Finished) -> list[Asked]:
    return list(asked(honest))


def rows(*cells: Sequence[object]) -> str:
    return "".join(f"| {' | '.join(str(cell) for cell in row)} |\n" for row in cells)


def score(certificate: dict[str, Any], name: str) -> str:
    value = certificate["scores"].get(name, certificate["composite_score"])
    interval = certificate["score_intervals"][name]
    if interval["low"] is None:
        return f"{value:.3f}"
    return f"{value:.3f} ({interval['low']:.3f} … {interval['high']:.3f})"


def test_the_scores_are_those_of_the_runs(honest: Finished, tmp_path: Path) -> None:
    fake = run_fake(tmp_path, "words-looked-up")
    both = [cast("dict[str, Any]", one.document("certificate.json")) for one in (honest, fake)]
    weights = both[0]["criteria"]["weights"]
    table = [
        (f"`{name}`", f"{weights[name]:g}", *(score(one, name) for one in both))
        for name in both[0]["criteria"]["criteria_ids"]
    ]
    table.append(("composite |", *(score(one, "composite_score") for one in both)))
    assert f"|---|---|---|---|\n{rows(*table)}\n" in PAGE


def test_the_hops_are_those_of_the_run(honest: Finished) -> None:
    (step,) = [one for one in honest.steps() if one["step_id"] == "follow_decisions"]
    output = cast("dict[str, Any]", step["result"])["output"]
    members = ("arrived", "lost", "unanswered", "invented", "claims", "without_effect")
    table = [
        (f"`{hop['hop']}`", *("-" if hop[one] is None else hop[one] for one in members))
        for hop in output["hops"]
    ]
    assert rows(*table) in PAGE
    assert f"{output['decisions']} decisions are in force" in FLAT


def test_the_requests_are_counted_by_kind_as_in_the_run(episodes: list[Asked]) -> None:
    kinds: dict[str, Counter[str]] = {}
    total: Counter[str] = Counter()
    for request, outcome in (pair for one in episodes for pair in outcomes(one)):
        total[outcome] += 1
        for kind in request.get("hard", []):
            kinds.setdefault(kind, Counter())[outcome] += 1
    table = [
        (f"`{kind}`", found.total(), *(found[one] for one in OUTCOMES))
        for kind, found in sorted(kinds.items())
    ]
    table.append(("all", total.total(), *(total[one] for one in OUTCOMES)))
    assert f"|---|---|---|---|---|---|\n{rows(*table)}\n" in PAGE
    assert f"{total['right']} of the {total.total()} requests that were signed off" in FLAT


def test_of_what_is_taken_for_another_term_that_one_stands_first(episodes: list[Asked]) -> None:
    found = 0
    for one in episodes:
        for request, outcome in outcomes(one):
            if outcome != "another":
                continue
            text = request["text"].casefold()
            first = min(
                (match.start(), term)
                for term, words in LISTED.items()
                if (match := words.search(text))
            )
            logged = one.answers["artisan"]["overrides"]
            taken = {o["term"].partition("/")[2] for o in logged if o["reason"] == request["text"]}
            assert taken == {first[1]}
            found += 1
    assert f"In each of the {found} it is the one whose word stands first in the text." in FLAT


def test_hearing_nothing_would_earn_what_the_page_says(episodes: list[Asked]) -> None:
    shares, silent = [], 0
    for one in episodes:
        carried = one.episode["expected_output"]["carried"]
        found, ought = ({tuple(i.values()) for i in carried[hop]} for hop in ("easel", "mint"))
        shares.append(2 * len(found & ought) / (len(found) + len(ought)))
        silent += one.label["overrides"] == []
    assert f"would have a propagation of {sum(shares) / 48:.3f}." in FLAT
    assert f"would earn {silent / 48:.3f}, since in {silent} briefs nothing is overridden." in FLAT


def test_what_is_not_signed_off_is_never_logged(episodes: list[Asked]) -> None:
    wishes = [
        (one, request["text"])
        for one in episodes
        for request in one.brief["requests"]
        if not request["signed_off"]
    ]
    assert f"None of the {len(wishes)} wishes that nobody signed off" in FLAT
    for one, text in wishes:
        assert all(entry["reason"] != text for entry in one.answers["artisan"]["overrides"])


def wrong_facts(one: Asked) -> int:
    sheet = one.answers["mint"]["sheet"]
    return sum(sheet.get(name) != value for name, value in one.label["sheet"].items())


def test_the_sheets_are_counted_as_in_the_run(episodes: list[Asked]) -> None:
    heard = [one for one in episodes if one.is_heard]
    misheard = [one for one in episodes if not one.is_heard]
    assert not any(wrong_facts(one) for one in heard)
    assert f"In {len(heard)} of 48 briefs Artisan heard all" in FLAT
    spoilt = sum(map(wrong_facts, misheard))
    assert (
        f"In the other {len(misheard)}, {spoilt} facts of "
        f"{sum(wrong_facts(one) > 0 for one in misheard)} sheets are wrong"
    ) in FLAT
    assert f"becomes {spoilt / len(misheard):.1f} wrong facts on average" in FLAT
    table = []
    for kind in OF_ASSETS:
        having = [one for one in episodes if kind in one.episode["labels"]["hard"]]
        right = sum(one.is_heard for one in having)
        sheets = sum(not wrong_facts(one) for one in having)
        table.append((f"`{kind}`", len(having), right, sheets))
    assert f"|---|---|---|---|\n{rows(*table)}\n" in PAGE


def test_the_examples_are_those_of_the_run(episodes: list[Asked]) -> None:
    quoted = [line[2:] for line in PAGE.splitlines() if line.startswith("> ")]
    assert len(quoted) == 6
    wrong = {
        request["text"] for one in episodes for request, found in outcomes(one) if found != "right"
    }
    assert set(quoted) <= wrong
    for one in episodes:
        sheet = one.answers["mint"]["sheet"]
        for request in one.brief["requests"]:
            if request["text"] in quoted:
                told = PAGE.partition(request["text"])[2].partition("\n> ")[0]
                changed = [str(v) for n, v in sheet.items() if one.label["sheet"].get(n, v) != v]
                assert not changed or any(f"`{value}`" in told for value in changed)


def test_the_tier_is_that_of_the_certificate(honest: Finished) -> None:
    certificate = cast("dict[str, Any]", honest.document("certificate.json"))
    assert f"**{certificate['verification_tier']}**" in PAGE
    assert certificate["caps"] == ["replays-below-50"]
    assert "`replays-below-50`" in PAGE
    aggregate = cast("dict[str, Any]", honest.document("scores/aggregate.json"))
    gaps = aggregate["holdout_scores"]["gap"].values()
    assert not any(gap["beyond_sampling_error"] for gap in gaps)
