"""Sealed verifications side by side: what is compared, what is refused, and what is told."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.theatre.echelon_process import Answer
from tests.theatre.forked_echelon import forked
from tests.theatre.rlmf_runs import every_ending
from tests.theatre.verification.git_history import Commit, repository
from theatre.engine.canonical_json import parse_object
from theatre.engine.comparison import compare_bundles
from theatre.engine.errors import NotComparableError
from theatre.verification.confidence_discipline import read_confidence_discipline

COMMITS = 24

ORACLES = '''
"""Oracles that say a known share of what is right, as sure of it as they say."""

from theatre.construct_kit import Refusal


def place_of(input_data):
    return int(input_data["record"]["title"].split()[-1])


def answer(claims, summary, reply, sure):
    return {
        "summary": summary,
        "key_claims": claims,
        "follow_up_response": reply,
        "metadata": {"claim_confidence": sure},
    }


def right(input_data):
    place = place_of(input_data)
    return answer(["Changes a.py."], f"Adds f{place} to a.py.", "1", [0.9])


def half(input_data):
    """Next to the right claim a false one, of which it is sure; a summary of odd changes only."""
    place = place_of(input_data)
    claims = ["Changes a.py.", f"Adds `missing_{place}`."]
    summary = f"Adds f{place} to a.py." if place % 2 else "Much was done."
    return answer(claims, summary, "1", [0.3, 0.8])


def declining(input_data):
    """As good as `right`, but declines three changes and breaks on one."""
    place = place_of(input_data)
    if place in (1, 2, 3):
        raise Refusal("not this one")
    if place == 5:
        raise RuntimeError("broken")
    return right(input_data)


def curt(input_data):
    """Claims what is right, says nothing else, and is sure of nothing."""
    return {"summary": "", "key_claims": ["Changes a.py."], "follow_up_response": "2"}
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A home with verifications of one history."""

    folder: Path

    def verify(self, name: str, *options: str, data: str = "data") -> Path:
        """Run an oracle to its end; return its bundle."""
        answer = self.echelon(
            *("verify", "--data", str(self.folder / data), "--json", "--quiet"),
            *("--min-replays", "5", "--retries", "0", "--construct-id", name),
            *("--construct", f"oracles:{name}", "--folder", str(self.folder), *options),
        )
        assert answer.code == 0, answer.stdout + answer.stderr
        return Path(answer.document["bundle_path"])

    def ingest(self, data: str, *options: str) -> None:
        """Keep the history, or a part of it, as ground truth."""
        kept = self.echelon(
            *("ingest", "--repo", str(self.folder / "repo"), *options),
            *("--output", str(self.folder / data)),
        )
        assert kept.code == 0, kept.stderr

    def echelon(self, *arguments: str | Path) -> Answer:
        """Run a command in this home."""
        return forked(*arguments, home=self.folder / "home")


def small_history(folder: Path) -> Compared:
    """Make a history in which each change adds a function to one file, and keep it."""
    bodies = [b"".join(b"def f%d(): pass\n" % i for i in range(at + 1)) for at in range(COMMITS)]
    repository(
        folder / "repo",
        [Commit(message=b"Change %d" % at, files={b"a.py": b}) for at, b in enumerate(bodies)],
    )
    (folder / "oracles.py").write_text(ORACLES, encoding="utf-8")
    runs = Compared(folder=folder)
    runs.ingest("data")
    return runs


def episode_lines(bundle: Path) -> list[dict[str, Any]]:
    """Return what the evidence says of each change."""
    raw = (bundle / "scores" / "per_episode.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in raw.splitlines()]


NAMES = ("right", "half", "declining", "curt")
DECLINED = 3
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    return small_history(tmp_path_factory.mktemp("compared"))


@pytest.fixture(scope="module")
def bundles(home: Compared) -> dict[str, Path]:
    return {name: home.verify(name) for name in NAMES}


@pytest.fixture(scope="module")
def comparison(bundles: dict[str, Path]) -> dict[str, Any]:
    return told_of(list(bundles.values()))


def told_of(bundles: Sequence[Path]) -> dict[str, Any]:
    found: dict[str, Any] = compare_bundles(bundles)
    for run, bundle in zip(found["runs"].values(), bundles, strict=True):
        run["confidence_discipline"] = read_confidence_discipline(bundle)
        run["effective_tier"] = run["verification_tier"]
    return found


def pair_of(comparison: dict[str, Any], first: str, second: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = [
        pair["measures"]
        for pair in comparison["pairs"]
        if (pair["first"], pair["second"]) == (first, second)
    ]
    assert len(found) == 1
    return found[0]


def test_a_difference_is_the_mean_over_the_changes_that_count_for_both(
    comparison: dict[str, Any], bundles: dict[str, Path]
) -> None:
    lines = {name: episode_lines(bundle) for name, bundle in bundles.items()}
    for pair in comparison["pairs"]:
        for criterion in ("precision", "recall", "reply_accuracy"):
            both = [
                (Fraction(str(one["scores"][criterion])), Fraction(str(two["scores"][criterion])))
                for one, two in zip(lines[pair["first"]], lines[pair["second"]], strict=True)
                if one["scores"][criterion] is not None and two["scores"][criterion] is not None
            ]
            found = pair["measures"][criterion]
            assert found["counted"] == {"first": len(both), "second": len(both)}
            assert sum(found["left_out"].values()) == COMMITS - len(both)
            mean = float(sum(one - two for one, two in both) / len(both))
            assert found["difference"]["value"] == pytest.approx(mean, abs=1e-9)
            assert found["difference"]["low"] < mean < found["difference"]["high"]


def test_who_is_worse_is_told_apart_and_who_is_not_is_not(comparison: dict[str, Any]) -> None:
    worse = pair_of(comparison, "right", "half")
    assert worse["precision"]["difference"]["low"] > 0
    assert worse["precision"]["test"]["test"] == "sign_flip"
    assert worse["composite_score"]["p_holm"] < 0.05
    same = worse["reply_accuracy"]
    assert (same["test"]["test"], same["test"]["p_value"]) == ("mcnemar", 1)
    assert same["difference"]["low"] < 0 < same["difference"]["high"]
    # What could have been seen is not nothing, and more than the interval reaches.
    assert same["difference"]["high"] < same["detectable"] < 1


def test_a_failed_change_counts_zero_and_a_declined_one_is_left_out(
    comparison: dict[str, Any],
) -> None:
    found = pair_of(comparison, "right", "declining")["precision"]
    assert found["counted"]["first"] == COMMITS - DECLINED
    assert found["left_out"] == {"first": 0, "second": DECLINED, "both": 0}
    assert found["failed"] == {"first": 0, "second": 1}
    assert found["difference"]["value"] == pytest.approx(1 / (COMMITS - DECLINED), abs=1e-9)
    counts = (found["test"]["only_first"], found["test"]["only_second"])
    assert counts == (1, 0)


def test_nobody_rises_by_declining_what_is_hard(comparison: dict[str, Any]) -> None:
    right, declining = (comparison["runs"][name]["scores"] for name in ("right", "declining"))
    places = comparison["ranking"]["recall"]
    assert declining["recall"] > right["recall"]
    assert places["episodes"] == COMMITS - DECLINED
    assert places["runs"]["declining"]["rank"] >= places["runs"]["right"]["rank"]


def test_ranks_and_percentiles_state_ties_and_how_many_were_ranked(
    comparison: dict[str, Any],
) -> None:
    places = comparison["ranking"]["precision"]["runs"]
    told = {name: (one["rank"], one["tied"], one["of"]) for name, one in places.items()}
    assert told == {
        "right": (1, 1, 4),
        "curt": (1, 1, 4),
        "declining": (3, 0, 4),
        "half": (4, 0, 4),
    }
    percentiles = [places[name]["percentile"] for name in ("right", "curt", "declining", "half")]
    assert percentiles == pytest.approx([250 / 3, 250 / 3, 100 / 3, 0])


def test_confidently_wrong_claims_are_told_from_tentative_ones(comparison: dict[str, Any]) -> None:
    told = {name: run["confidence_discipline"] for name, run in comparison["runs"].items()}
    half = told["half"]
    assert (half["confident"]["claims"], half["confident"]["wrong"]) == (COMMITS, COMMITS)
    assert (half["tentative"]["claims"], half["tentative"]["wrong"]) == (COMMITS, 0)
    assert half["wrong_with_confidence"] == 1
    assert told["right"]["confident"]["share_wrong"]["value"] == 0
    assert told["right"]["confident"]["claims"] == COMMITS
    assert told["declining"]["confident"]["claims"] == COMMITS - DECLINED - 1
    assert told["curt"]["reason"] == "no-confidence-stated"
    assert told["curt"]["without_confidence"] == COMMITS


def test_holm_counts_every_comparison_of_the_call(
    comparison: dict[str, Any], bundles: dict[str, Path]
) -> None:
    alone = told_of([bundles["right"], bundles["half"]])
    among_four = pair_of(comparison, "right", "half")["recall"]
    among_two = pair_of(alone, "right", "half")["recall"]
    assert among_four["test"] == among_two["test"]
    assert among_four["test"]["p_value"] < among_two["p_holm"] < among_four["p_holm"]
    tests = [one for pair in comparison["pairs"] for one in pair["measures"].values()]
    smallest = min(one["test"]["p_value"] for one in tests)
    assert min(one["p_holm"] for one in tests) == pytest.approx(smallest * len(tests), rel=0.05)


def test_the_other_order_turns_the_sign_and_nothing_else(
    comparison: dict[str, Any], bundles: dict[str, Path]
) -> None:
    turned = told_of(list(reversed(bundles.values())))
    for first, second in combinations(NAMES, 2):
        theirs = pair_of(turned, second, first)
        for measure, one in pair_of(comparison, first, second).items():
            other = theirs[measure]
            assert one["difference"]["value"] == -other["difference"]["value"]
            assert one["difference"]["low"] == -other["difference"]["high"]
            # Where signs are drawn, too: whoever compares draws the same.
            assert one["test"]["p_value"] == other["test"]["p_value"]
            assert one["detectable"] == other["detectable"]


def test_every_run_stands_with_its_own_commitment_and_certificate(
    comparison: dict[str, Any], bundles: dict[str, Path]
) -> None:
    assert comparison["is_certificate"] is False
    runs = comparison["runs"]
    for name, bundle in bundles.items():
        theirs = parse_object((bundle / "certificate.json").read_bytes())
        assert runs[name]["commitment_hash"] == theirs["commitment_hash"]
        assert runs[name]["scores"]["composite_score"] == theirs["composite_score"]
    assert len({run["commitment_hash"] for run in runs.values()}) == len(bundles)
    assert len(comparison["pairs"]) == len(list(combinations(bundles, 2)))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--weights", "precision=2,recall=1,reply_accuracy=1"], r"same terms.*criteria\.weights"),
        (["--timeout", "29"], r"same terms.*timeout_seconds"),
    ],
)
def test_other_terms_are_refused_and_named(
    home: Compared, bundles: dict[str, Path], options: list[str], named: str
) -> None:
    other = home.verify("curt", *options)
    with pytest.raises(NotComparableError, match=named):
        compare_bundles([bundles["right"], other])


def test_other_ground_truth_is_refused(home: Compared, bundles: dict[str, Path]) -> None:
    home.ingest("fewer", "--limit", str(COMMITS - 1))
    other = home.verify("curt", data="fewer")
    with pytest.raises(NotComparableError, match=r"same dataset.*dataset_hashes"):
        compare_bundles([bundles["right"], other])


def test_a_run_is_not_compared_with_itself_and_one_alone_with_nobody(
    bundles: dict[str, Path], tmp_path: Path
) -> None:
    copy = shutil.copytree(bundles["right"], tmp_path / "copy")
    with pytest.raises(NotComparableError, match="more than once"):
        compare_bundles([bundles["right"], copy])
    with pytest.raises(NotComparableError, match="at least two"):
        compare_bundles([bundles["right"]])


def test_a_bundle_of_another_dataset_is_refused(bundles: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(NotComparableError, match=r"dataset_hashes.* more$"):
        compare_bundles([bundles["right"], every_ending(tmp_path).bundle])


def test_the_command_prints_draws_and_takes_theatre_ids(
    home: Compared, bundles: dict[str, Path], tmp_path: Path
) -> None:
    ids = [bundles[name].parent.name for name in ("right", "half")]
    shown = home.echelon("compare", *ids, "--plot", tmp_path / "plots")
    assert shown.code == 0, shown.stderr
    assert "right minus half" in shown.stdout
    assert "McNemar" in shown.stdout
    assert "no certificate" in shown.stdout
    assert "rank by words" in shown.stdout
    assert "  precision: share of claims whose words occur in the change\n" in shown.stdout
    assert "words were scored: a higher mean makes no better construct" in shown.stdout
    picture = ET.parse(tmp_path / "plots" / "differences.svg")  # noqa: S314  # our own picture
    words = " ".join("".join(one.itertext()) for one in picture.iter(f"{SVG}text"))
    for expected in ("composite", "reply_accuracy", "right minus half", f"+0.500 (n = {COMMITS})"):
        assert expected in words.replace("  ", " ")
    compared = home.echelon("compare", *(one[:8] for one in ids), "--json")
    assert compared.document == told_of([bundles["right"], bundles["half"]])


def test_the_command_refuses_a_bundle_whose_check_fails(
    home: Compared, bundles: dict[str, Path], tmp_path: Path
) -> None:
    forged = shutil.copytree(bundles["half"], tmp_path / "forged")
    lines = forged / "scores" / "per_episode.jsonl"
    lines.write_bytes(lines.read_bytes().replace(b'"precision":0.5', b'"precision":1'))
    answer = home.echelon("compare", bundles["right"], forged, "--json")
    assert (answer.code, answer.document["bundle"]) == (10, str(forged))


def test_the_command_says_what_is_missing(home: Compared, bundles: dict[str, Path]) -> None:
    nothing = home.echelon("compare", bundles["right"], "nowhere", "--json")
    assert (nothing.code, nothing.document["error"]["code"]) == (3, "not-found")
    alone = home.echelon("compare", bundles["right"], "--json")
    assert (alone.code, alone.document["error"]["code"]) == (5, "not-comparable")
