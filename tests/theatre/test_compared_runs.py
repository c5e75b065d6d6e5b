"""Runs of any family side by side: what is paired, what flips, what is refused."""

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.theatre.played_runs import EPISODES, PLAYED, all_knowing, with_runner
from tests.theatre.runs import (
    COIN,
    ERROR,
    PILOT,
    REFUSED,
    WRONG,
    Finished,
    ScriptedAdapter,
    answer_as_asked,
    episodes,
    pilot_stage,
)
from theatre.cli import cli
from theatre.cli.exits import ExitCode, run_guarded
from theatre.cli.tables import format_p
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.coin import Coin
from theatre.engine.comparison import compare_bundles
from theatre.engine.errors import NotComparableError
from theatre.engine.oracle_contract import OracleInvocationRequest

COUNT = 12
ON: Mapping[str, JsonValue] = {"/execution_policy/on_threshold": "continue"}
OTHER = "beef" * 16
VERSIONS = (OTHER, "cafe" * 16)


def pilot(
    folder: Path,
    answers: Mapping[int, JsonObject] | None = None,
    *,
    changes: Mapping[str, JsonValue] | None = None,
    records: list[JsonObject] | None = None,
    version: str = OTHER,
) -> Finished:
    """Run a construct of a version over the same records, with `answers` at some of them."""
    said = {f"pilot-{seq}": one for seq, one in (answers or {}).items()}
    stage = pilot_stage(
        folder,
        episodes(COUNT) if records is None else records,
        changes={**ON, "/version_pins/constructs": {PILOT: version}, **(changes or {})},
        name=str(folder),
    )
    alias = {stage.draws.alias(name): answer for name, answer in said.items()}

    def answer(request: OracleInvocationRequest) -> JsonObject:
        return alias.get(request.episode_id) or answer_as_asked(request)

    return stage.run(ScriptedAdapter(answer, version=version))


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return pilot(tmp_path_factory.mktemp("right"))


def compared(*runs: Finished) -> dict[str, Any]:
    found: dict[str, Any] = compare_bundles([run.bundle for run in runs])
    return found


def measured(comparison: dict[str, Any], measure: str = "colour") -> dict[str, Any]:
    (pair,) = comparison["pairs"]
    found: dict[str, Any] = pair["measures"][measure]
    return found


def test_flips_are_named_and_mcnemar_counts_them(right: Finished, tmp_path: Path) -> None:
    wrong = dict.fromkeys((2, 3, 5, 7, 8, 11), WRONG)
    found = measured(compared(right, pilot(tmp_path, wrong, version="cafe" * 16)))
    assert [one["seq"] for one in found["flips"]] == sorted(wrong)
    assert found["flips"][0] == {
        "episode_id": "pilot-2",
        "seq": 2,
        "first": 1.0,
        "second": 0.0,
        "first_outcome": "scored",
        "second_outcome": "scored",
        "is_withheld": False,
    }
    assert found["difference"]["value"] == 0.5
    # By hand: 2 / 2^6.
    assert found["test"] == {
        "test": "mcnemar",
        "only_first": 6,
        "only_second": 0,
        "p_value": 0.03125,
    }


def test_a_composite_of_one_criterion_is_no_comparison_more(tmp_path: Path) -> None:
    wrong = dict.fromkeys((2, 3, 5, 7, 8, 11), WRONG)
    changes: dict[str, JsonValue] = {"/criteria/weights": {"colour": 1, "recall": 0}}
    runs = [pilot(tmp_path / "right", changes=changes)]
    runs += [pilot(tmp_path / "wrong", wrong, changes=changes, version="cafe" * 16)]
    found = compared(*runs)["pairs"][0]["measures"]
    told = {name: (one["test"]["p_value"], one["p_holm"]) for name, one in found.items()}
    assert told == dict.fromkeys(("colour", "recall", "composite_score"), (0.03125, 0.0625))


def test_a_failure_on_one_side_counts_0_and_a_refusal_is_left_out_and_bounded(
    right: Finished, tmp_path: Path
) -> None:
    other = pilot(tmp_path, {1: ERROR, 4: REFUSED, 6: REFUSED}, version="cafe" * 16)
    found = measured(compared(other, right))
    assert found["counted"] == {"first": COUNT - 2, "second": COUNT - 2}
    assert found["left_out"] == {"first": 2, "second": 0, "both": 0}
    assert found["failed"] == {"first": 1, "second": 0}
    assert found["difference"]["value"] == -0.1
    assert [one["first_outcome"] for one in found["flips"]] == ["missing"]
    # With both refusals, and the failure, as wrong or as right.
    assert found["at_worst"] == {"low": -0.25, "high": 0}


def test_a_criterion_that_no_episode_has_has_no_difference(tmp_path: Path) -> None:
    records: list[JsonObject] = [
        {**one, "expected_output": {"colour": "red"}} for one in episodes(COUNT)
    ]
    runs = [pilot(tmp_path / version, records=records, version=version) for version in VERSIONS]
    found = compared(*runs)["pairs"][0]["measures"]
    assert [found[name]["at_worst"] for name in ("recall", "composite_score")] == [None, None]
    assert found["colour"]["at_worst"] == {"low": 0, "high": 0}


def test_the_same_construct_twice_is_named_apart_and_differs_in_nothing(
    right: Finished, tmp_path: Path
) -> None:
    again = pilot(tmp_path / "again")
    other = pilot(tmp_path / "other", version="cafe" * 16)
    found = compared(right, again, other)
    assert list(found["runs"]) == [
        f"pilot ({right.theatre.theatre_id[:8]})",
        f"pilot ({again.theatre.theatre_id[:8]})",
        "pilot @ cafecaf",
    ]
    values = [one["p_holm"] for pair in found["pairs"] for one in pair["measures"].values()]
    assert values == [1.0] * 9


def test_clusters_are_the_units_of_interval_and_test(tmp_path: Path) -> None:
    records = [one | {"cluster_key": f"c{seq // 3}"} for seq, one in enumerate(episodes(COUNT))]
    runs = [
        pilot(tmp_path / version, answers, records=records, version=version * 16)
        for version, answers in (("beef", {}), ("cafe", dict.fromkeys((1, 2, 3, 4), WRONG)))
    ]
    found = compared(*runs)
    assert found["clusters"] == 4
    one = measured(found)
    assert one["difference"]["method"] == "cluster_bca"
    assert one["difference"]["value"] == pytest.approx(4 / COUNT)
    # Two clusters differ, both to one side: 2 of 2^2 signs are as far.
    assert one["test"] == {"test": "sign_flip", "differing": 2, "draws": None, "p_value": 0.5}
    turned = measured(compared(*reversed(runs)))
    assert turned["difference"]["low"] == -one["difference"]["high"]
    assert len(turned["flips"]) == 4


def test_other_scorer_versions_in_use_are_refused(right: Finished, tmp_path: Path) -> None:
    other = pilot(tmp_path / "run", version="cafe" * 16)
    copy = shutil.copytree(other.bundle, tmp_path / "copy")
    receipt = copy / "commitment_receipt.json"
    document = json.loads(receipt.read_text())
    document["scorer_pins"]["exact_match"] = "2"
    receipt.write_text(json.dumps(document))
    with pytest.raises(NotComparableError, match=r"same scorers.*scorer_pins\.exact_match"):
        compare_bundles([right.bundle, copy])


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"/execution_policy/timeout_seconds": 7}, r"same terms.*execution_policy"),
        ({"/criteria/weights": {"colour": 0.5, "recall": 0.5}}, r"same terms.*weights\.colour"),
        ({"/scoring/criteria_scorers/recall/params/abs": 0.2}, r"same scorers.*params\.abs"),
    ],
)
def test_other_terms_are_refused_and_named(
    right: Finished, tmp_path: Path, changes: dict[str, JsonValue], named: str
) -> None:
    other = pilot(tmp_path, changes=changes, version="cafe" * 16)
    with pytest.raises(NotComparableError, match=named):
        compared(right, other)


def test_what_the_author_calls_it_is_no_term(right: Finished, tmp_path: Path) -> None:
    changes: dict[str, JsonValue] = {
        "/theatre_id": "product_other_v1",
        "/display_name": "Other",
        "/execution_policy/max_concurrency": 2,
    }
    other = pilot(tmp_path, changes=changes, version="cafe" * 16)
    assert measured(compared(right, other))["difference"]["value"] == 0


def played(folder: Path, coin: Coin, *, version: str = OTHER) -> Finished:
    changes: dict[str, JsonValue] = {**ON, **PLAYED, "/version_pins/constructs": {PILOT: version}}
    stage = pilot_stage(folder, EPISODES, changes=changes, name=str(folder), coin=coin)
    adapter = ScriptedAdapter(all_knowing(stage), version=version)
    return stage.run(adapter, around=with_runner)


def test_interactive_runs_are_paired_in_the_same_worlds_alone(tmp_path: Path) -> None:
    another = Coin(hashlib.sha256(b"another").digest())
    first, same, other = (
        played(tmp_path / name, coin)
        for name, coin in (("first", COIN), ("same", COIN), ("other", another))
    )
    paired, apart = compared(first, same), compared(first, other)
    assert paired["pairs"][0]["is_paired"] is True
    assert measured(paired)["test"]["test"] == "mcnemar"
    assert apart["pairs"][0]["is_paired"] is False
    one = measured(apart)
    assert (one["test"]["test"], one["difference"]["method"]) == ("fisher", "newcombe")
    assert one["counted"] == {"first": 5, "second": 5}
    assert (one["flips"], one["detectable"]) == ([], None)
    # The same coin draws other worlds for another template.
    third = played(tmp_path / "third", COIN, version="cafe" * 16)
    assert compared(first, third)["pairs"][0]["is_paired"] is False


def test_a_p_value_is_never_shown_as_0() -> None:
    assert [format_p(one) for one in (1.0, 0.0163, 1e-6, 1.6e-27, 0.0)] == [
        *("1", "0.016", "1e-06", "<1e-06", "<1e-06")
    ]


def test_the_command_lists_flips_draws_and_counts(
    right: Finished, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = dict.fromkeys((2, 3, 5, 7, 8, 11), WRONG)
    other = pilot(tmp_path, wrong | {1: ERROR, 12: REFUSED}, version="cafe" * 16)
    runs = [str(right.bundle), str(other.bundle)]
    assert run_guarded(cli, ["compare", *runs, "--flips", "2", "--plot", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert (
        "flipped      colour: 7 for the first, 0 for the second\n  pilot-1  1.000 → 0.000" in said
    )
    assert "  … 5 more: --flips 7" in said
    assert "\nfinding      pilot @ cafecaf: baseline-meets-interval:colour\n" in said
    assert "near-duplicates" not in said
    assert "failed       0 and 1 episodes, counted 0" in said
    assert "at worst     +0.500 … +0.667, with each gap as 0 or as 1\n" in said
    picture = ET.parse(tmp_path / "differences.svg")  # noqa: S314  # our own picture
    words = " ".join("".join(one.itertext()) for one in picture.iter()).replace("  ", " ")
    for wanted in ("UNVERIFIED", f"n = {COUNT} of {COUNT}", "resolved 20", "results ", "dataset "):
        assert wanted in words
    assert run_guarded(cli, ["compare", *runs, "--json"]) == ExitCode.OK
    document = json.loads(capsys.readouterr().out)
    assert len(measured(document)["flips"]) == 7


def test_a_withheld_episode_stays_in_the_comparison_and_is_named_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes: dict[str, JsonValue] = {
        "/schema_version": "2.2.0",
        "/product_theatre_config/disclosure": "withheld",
        "/product_theatre_config/withheld": {"episodes": ["pilot-2"]},
    }
    runs = [
        pilot(tmp_path / version, answers, changes=changes, version=version * 16)
        for version, answers in (("beef", {}), ("cafe", {2: WRONG, 3: WRONG}))
    ]
    folders = [tmp_path / f"published-{run.theatre.theatre_id}" for run in runs]
    for run, folder in zip(runs, folders, strict=True):
        words = ["disclose", str(run.bundle), "--published", "--output", str(folder)]
        assert run_guarded(cli, words) == ExitCode.OK
    whole, open_part = (compare_bundles(one) for one in ([run.bundle for run in runs], folders))
    flips = [(one["episode_id"], one["is_withheld"]) for one in measured(dict(open_part))["flips"]]
    assert flips == [("pilot-2", True), ("pilot-3", False)]
    assert measured(dict(open_part))["difference"] == measured(dict(whole))["difference"]
    capsys.readouterr()
    assert run_guarded(cli, ["compare", *map(str, folders)]) == ExitCode.OK
    said = capsys.readouterr().out
    assert "  pilot-2  1.000 → 0.000 (withheld)\n" in said
    assert "2 runs withhold episodes: only their issuers computed those" in said
