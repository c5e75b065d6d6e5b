"""No verification certificate for a run that only bears the name: template and ground truth."""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.forked_echelon import forked
from tests.theatre.verification.verify_command import COMMITS, arguments, write_oracle
from theatre.engine.canonical_json import canonical_line, sha256_hex
from theatre.engine.models import GroundTruthEpisode, read_episodes
from theatre.engine.rlmf_export import SealedBundle, measured_calibration
from theatre.verification.certificate import training_calibration, verification_certificate
from theatre.verification.errors import NoVerificationError
from theatre.verification.judge.controls import committed_controls
from theatre.verification.judge.scorer import committed_judge
from theatre.verification.provenance import require_built_in, require_derived
from theatre.verification.scoring_providers import judged_scoring
from theatre.verification.template import EQUAL_WEIGHTS, OracleUnderTest, Terms, oracle_template

Edit = Callable[[dict[str, Any]], object]
ORACLE = OracleUnderTest(
    construct_id="oracle", version="0123456", adapter_type="http", endpoint="https://o.example/"
)
TERMS = Terms(weights=EQUAL_WEIGHTS, timeout_seconds=7, ground_truth_source="CUSTOM")
JUDGED = oracle_template(
    ORACLE,
    TERMS,
    sha256_hex(b""),
    scoring=judged_scoring(
        committed_judge("some-model", temperature=None, repeats=3), controls=committed_controls(100)
    ),
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the ground truth of a small history, and a template that was run."""
    folder = tmp_path_factory.mktemp("provenance")
    construct = write_oracle(folder, "pass")
    kept = ("--output", str(folder / "kept"))
    given = arguments(folder, *kept, "--quiet", "--json", construct=construct)
    answer = forked(*given, home=folder / "home")
    assert answer.code == 0, answer.stdout + answer.stderr
    return folder / "kept"


def template_of(kept: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((kept / "template.json").read_bytes())
    return found


def episodes_of(kept: Path) -> list[GroundTruthEpisode]:
    return list(read_episodes((kept / "dataset.jsonl").read_bytes().splitlines()))


@pytest.mark.parametrize("adapter_pin", [None, "http@2"])
def test_what_is_made_of_its_terms_is_the_built_in_template(
    kept: Path, adapter_pin: str | None
) -> None:
    require_built_in(template_of(kept))
    terms = replace(TERMS, weights={"recall": 1.0}, max_retries=0, minimum_replays=9)
    require_built_in(oracle_template(replace(ORACLE, adapter_pin=adapter_pin), terms, "0" * 64))
    require_built_in(JUDGED)


def other_scorer(template: dict[str, Any]) -> None:
    scored = template["scoring"]["criteria_scorers"]
    scored["precision"] = scored["recall"]


def one_more_criterion(template: dict[str, Any]) -> None:
    template["criteria"]["criteria_ids"].append("charm")


def weighing_what_weighs_nothing(template: dict[str, Any]) -> None:
    template["criteria"]["weights"]["lexical_recall"] = 0.5


def without_second_opinion(template: dict[str, Any]) -> None:
    del template["resolution_programme"][-1]


def a_wide_bound(template: dict[str, Any]) -> None:
    template["resolution_programme"][-1]["input_spec"]["params"]["beyond"] = 1


def a_judge_shown_less(template: dict[str, Any]) -> None:
    template["scoring"]["criteria_scorers"]["recall"]["params"]["judge"]["parts"] = 1


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (other_scorer, "scoring.criteria_scorers.precision"),
        (one_more_criterion, "criteria.criteria_ids"),
        (lambda t: t["version_pins"].update(methodology_version="better-2"), "methodology_version"),
        (lambda t: t["version_pins"].update(scorer_version="people@1"), "scorer_version"),
        (lambda t: t["scoring"].update(holdout_split=0.01), "scoring.holdout_split"),
        (lambda t: t["execution_policy"].update(failure_stop=1), "execution_policy.failure_stop"),
        (lambda t: t.update(theatre_id="mine_v1"), "expected the template community_oracle_v1"),
        (lambda t: t.pop("oracle_config"), "oracle_config"),
    ],
)
def test_a_template_that_only_bears_the_name_is_refused(kept: Path, edit: Edit, named: str) -> None:
    template = template_of(kept)
    edit(template)
    with pytest.raises(NoVerificationError, match=named):
        require_built_in(template)


@pytest.mark.parametrize(
    "edit", [weighing_what_weighs_nothing, without_second_opinion, a_wide_bound, a_judge_shown_less]
)
def test_so_is_one_whose_judge_goes_its_own_way(edit: Edit) -> None:
    template: dict[str, Any] = deepcopy(JUDGED)
    edit(template)
    with pytest.raises(NoVerificationError, match="got other members"):
        require_built_in(template)


def test_what_is_expected_of_a_change_follows_from_it(kept: Path) -> None:
    episodes = episodes_of(kept)
    assert len(episodes) == COMMITS
    for episode in episodes:
        require_derived(episode)


@pytest.mark.parametrize(
    "change",
    [
        {"expected_output": {"follow_up": {"number": 1}, "important_changes": []}},
        {"expected_output": None},
        {"episode_id": "another"},
        {"cluster_key": "all of them"},
        {"labels": {"a": 1}},
        {"metadata": {"a": 1}},
        {"input_data": {}},
        {"input_data": {"record": {"diff_content": ""}, "follow_up_question": ""}},
    ],
)
def test_other_expectations_are_refused(kept: Path, change: dict[str, Any]) -> None:
    for episode in episodes_of(kept):
        with pytest.raises(NoVerificationError):
            require_derived(replace(episode, **change))


def test_another_question_is_refused(kept: Path) -> None:
    (first, *_) = episodes_of(kept)
    asked = {**first.input_data, "follow_up_question": "What is the answer? It is 1."}
    with pytest.raises(NoVerificationError, match=r"input_data\.follow_up_question"):
        require_derived(replace(first, input_data=asked))


def test_a_record_names_a_commit_and_nothing_else(kept: Path) -> None:
    (first, *_) = episodes_of(kept)
    record: Any = first.input_data["record"]
    told = {**first.input_data, "record": {**record, "commit": "the best there is"}}
    with pytest.raises(NoVerificationError, match="expected a ground-truth record"):
        require_derived(replace(first, input_data=told))


def easier(kept: Path, folder: Path) -> Path:
    """Copy ground truth with one name that every summary has as all that is important."""
    folder.mkdir()
    for name in ("template.json", "constructs.toml", "ground_truth.jsonl"):
        (folder / name).write_bytes((kept / name).read_bytes())
    lines = [json.loads(line) for line in (kept / "dataset.jsonl").read_bytes().splitlines()]
    for line in lines:
        easy = [{"operation": "modified", "subject": "a.py", "path": "a.py"}]
        line["expected_output"]["important_changes"] = easy
    dataset = b"".join(canonical_line(line) for line in lines)
    (folder / "dataset.jsonl").write_bytes(dataset)
    source = json.loads((kept / "source.json").read_bytes())
    source["dataset_sha256"] = sha256_hex(dataset)
    (folder / "source.json").write_bytes(canonical_line(source))
    template = template_of(kept)
    template["dataset_hashes"] = {"ground_truth": sha256_hex(dataset)}
    (folder / "template.json").write_bytes(canonical_line(template))
    return folder


def test_a_sealed_run_on_easier_ground_truth_earns_no_verification_certificate(
    kept: Path, tmp_path: Path
) -> None:
    forged = easier(kept, tmp_path / "easier")
    home = tmp_path / "home"
    ran = forked("theatre", "run", forged / "template.json", "--json", "--quiet", home=home)
    assert ran.code == 0, ran.stdout + ran.stderr
    bundle = Path(ran.document["bundle_path"])
    assert forked("check", bundle, home=home).code == 0
    with pytest.raises(NoVerificationError, match="what follows from its diff"):
        verification_certificate(bundle)
    scored = forked("score", "--data", bundle, "--output", tmp_path / "c.json", home=home)
    assert (scored.code, (tmp_path / "c.json").exists()) == (5, False)
    # As training data it is what any theatre is.
    sealed = SealedBundle(bundle)
    assert training_calibration(sealed) == measured_calibration(sealed)


def test_ground_truth_that_was_edited_is_not_taken_up(kept: Path, tmp_path: Path) -> None:
    forged = easier(kept, tmp_path / "easier")
    given = ("--data", forged, "--construct", "nobody:at_all", "--folder", tmp_path)
    answer = forked("verify", *given, "--min-replays", "1", home=tmp_path / "home")
    assert "as `echelon ingest` left it" in answer.stderr


def test_a_folder_whose_template_was_edited_is_not_run(kept: Path, tmp_path: Path) -> None:
    forged = easier(kept, tmp_path / "easier")
    template = template_of(forged)
    other_scorer(template)
    (forged / "template.json").write_bytes(canonical_line(template))
    answer = forked("verify", "--resume", forged, home=tmp_path / "home")
    assert "scoring.criteria_scorers.precision" in answer.stderr
    assert not (tmp_path / "home" / "theatres").exists()
