"""`docs/easel-theatre.md`: each of its numbers is the one that a run brings."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.easel_runs import RUBRIC, run_easel
from tests.theatre.runs import Finished
from tests.theatre.test_fakes import SHIPPED

CHECKOUT = Path(__file__).parents[2]
PAGE = (CHECKOUT / "docs" / "easel-theatre.md").read_text(encoding="utf-8")
COMPLIANCE = "downstream_compliance"
WORDS = "words-looked-up"


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run of the theatre came to."""

    finished: Finished
    certificate: dict[str, Any]
    aggregate: dict[str, Any]
    propagation: dict[str, Any]

    @property
    def taste(self) -> dict[str, Any]:
        found: dict[str, Any] = self.aggregate["human_scores"][RUBRIC]
        return found


def measured(finished: Finished) -> Measured:
    (step,) = [one for one in finished.steps() if one["step_id"] == "follow_decisions"]
    return Measured(
        finished,
        finished.document("certificate.json"),
        finished.document("scores/aggregate.json"),
        cast("dict[str, Any]", step["result"])["output"],
    )


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured(run_easel(tmp_path_factory.mktemp("honest")))


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    folder, shipped = tmp_path_factory.mktemp("fake"), SHIPPED["easel"]
    return measured(shipped.run(folder / "run", shipped.registry(folder, WORDS)))


def rows(*cells: Sequence[object]) -> str:
    return "".join(f"| {' | '.join(str(cell) for cell in row)} |\n" for row in cells)


def score(certificate: dict[str, Any], name: str) -> str:
    value = certificate["scores"].get(name, certificate["composite_score"])
    interval = certificate["score_intervals"][name]
    return f"{value:.3f} ({interval['low']:.3f} … {interval['high']:.3f})"


def test_the_scores_are_those_of_the_runs(honest: Measured, fake: Measured) -> None:
    both = (honest, fake)
    weights = honest.certificate["criteria"]["weights"]
    table = [
        (f"`{name}`", f"{weights[name]:g}", *(score(one.certificate, name) for one in both))
        for name in honest.certificate["criteria"]["criteria_ids"]
    ]
    machine = [f"{one.taste['machine']:.3f}" for one in both]
    table.append(("· of this, the machine's part |", *machine))
    composite = [score(one.certificate, "composite_score") for one in both]
    table.append(("composite |", *composite))
    assert rows(*table) in PAGE
    lines = cast("list[dict[str, Any]]", honest.finished.lines("scores/per_episode.jsonl"))
    right = sum(all(s in (1, None) for s in line["scores"].values()) for line in lines)
    assert f"In {right} of 85 episodes everything is right." in PAGE


def test_the_hops_are_those_of_the_runs(honest: Measured, fake: Measured) -> None:
    members = ("arrived", "lost", "unanswered", "invented", "claims", "without_effect")
    table = [
        (f"`{hop['hop']}`", *("-" if hop[one] is None else hop[one] for one in members))
        for hop in honest.propagation["hops"]
    ]
    assert rows(*table) in PAGE
    assert f"in which {honest.propagation['decisions']} decisions are in force" in PAGE
    easel, _, mint = fake.propagation["hops"]
    assert (
        f"With the words looked up, {easel['lost']} decisions are lost and {easel['invented']:,} "
        f"invented at Easel, and {mint['without_effect']} of Mint's {mint['claims']} claims are "
        "without effect."
    ) in PAGE


def said(findings: Iterable[dict[str, Any]]) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Return (episode, decision) → [(stance, term)]."""
    return {
        (one["episode_id"], one["decision"]): [(i["stance"], i["term"]) for i in one["items"]]
        for one in findings
    }


def test_what_goes_wrong_is_counted_as_in_the_run(honest: Measured) -> None:
    lost, invented = (said(honest.propagation[kind]["listed"]) for kind in ("lost", "invented"))
    assert (len(lost), len(invented)) == (50, 23)
    domains = Counter(
        (term.partition("/")[0], stance) for items in lost.values() for stance, term in items
    )
    assert (
        rows(
            *(
                (f"`{domain}`", domains[domain, "want"], domains[domain, "avoid"])
                for domain in sorted({domain for domain, _ in domains})
            )
        )
        in PAGE
    )
    taken = Counter(
        (lost[place][0][1], invented[place][0][1]) for place in lost.keys() & invented.keys()
    )
    assert f"{taken.total()} of the 50 were carried with another term" in PAGE
    by_number = sorted(taken.items(), key=lambda pair: (-pair[1], pair[0]))
    assert rows(*((f"`{one}`", f"`{other}`", n) for (one, other), n in by_number)) in PAGE
    airy = sum(term == "spacing/airy" for items in invented.values() for _, term in items)
    assert f"{airy} of the 23 inventions are `spacing/airy`." in PAGE


def test_the_hard_cases_are_counted_as_in_the_run(honest: Measured) -> None:
    lost = Counter(one["episode_id"] for one in honest.propagation["lost"]["listed"])
    counts: dict[str, Counter[str]] = {}
    for line in honest.finished.lines("ground_truth/dataset.jsonl"):
        episode = cast("Any", line)
        carried = episode["expected_output"]["carried"]["easel"]
        for kind in episode["labels"]["hard"]:
            count = counts.setdefault(kind, Counter())
            count["episodes"] += 1
            count["decisions"] += len({item["tdr"] for item in carried})
            count["lost"] += lost[episode["episode_id"]]
    assert (
        rows(
            *(
                (f"`{kind}`", count["episodes"], count["decisions"], count["lost"])
                for kind, count in sorted(counts.items())
            )
        )
        in PAGE
    )


def test_where_easel_was_right_so_was_each_sheet(honest: Measured) -> None:
    wrong = {
        one["episode_id"]
        for kind in ("lost", "invented")
        for one in honest.propagation[kind]["listed"]
    }
    lines = cast("list[dict[str, Any]]", honest.finished.lines("scores/per_episode.jsonl"))
    assert {line["scores"][COMPLIANCE] for line in lines if line["episode_id"] not in wrong} <= {
        1,
        None,
    }


def test_what_the_stand_ins_gave_and_how_far_they_agree_is_that_of_the_run(
    honest: Measured, fake: Measured
) -> None:
    lines = [
        json.loads(line)
        for line in (honest.finished.bundle / "hitl" / f"{RUBRIC}.jsonl").read_bytes().splitlines()
    ]
    given: dict[str, dict[str, float]] = {}
    for line in lines:
        given.setdefault(line["scorer"], {})[line["episode_id"]] = line["score"]
    one, other = given["demo-reviewer-a"], given["demo-reviewer-b"]
    means = [f"{sum(scores.values()) / 24:.2f}" for scores in (one, other)]
    assert rows(("mean, 1 to 5", *means)) in PAGE
    apart = [abs(one[item] - other[item]) for item in one]
    alpha = honest.taste["agreement"]["value"]
    assert (
        rows(
            ("the same score", sum(gap == 0 for gap in apart)),
            ("at most half a point apart", sum(gap <= 0.5 for gap in apart)),
            ("more than one point apart", sum(gap > 1 for gap in apart)),
            ("Krippendorff's alpha, interval", f"{alpha:.3f}"),
        )
        in PAGE
    )
    assert f"An alpha of {alpha:.3f} is poor" in PAGE
    flat = PAGE.replace("\n", " ")
    assert (
        f"the fake with its words looked up {fake.taste['human']:.3f} on average and "
        f"the honest chain {honest.taste['human']:.3f}"
    ) in flat


def test_the_tier_and_what_the_next_one_needs_are_those_of_the_certificate(
    honest: Measured,
) -> None:
    assert f"**{honest.certificate['verification_tier']}**" in PAGE
    needed = PAGE.partition("## The tier")[2].partition("\n## ")[0]
    assert [line.split("`")[1] for line in needed.splitlines() if line.startswith("- `")] == (
        honest.certificate["caps"]
    )
    gaps = honest.aggregate["holdout_scores"]["gap"].values()
    assert not any(gap["beyond_sampling_error"] for gap in gaps)
