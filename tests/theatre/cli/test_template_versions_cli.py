"""Every version and both paths on the command line: validate, hash, commit; and what runs."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any, cast

import pytest
import rfc8785

from tests.theatre.echelon_process import REPOSITORY
from tests.theatre.forked_echelon import forked
from theatre.engine.canonical_json import parse_object
from theatre.files.theatre_store import FileTheatreStore

TEMPLATES = REPOSITORY / "fixtures" / "templates"
VERSIONS = TEMPLATES / "versions"
NUMERALS = VERSIONS / "product_numerals_v1.json"
GRIDWORLD = VERSIONS / "gridworld_rescue_v1.json"
MARKET = min((TEMPLATES / "market").glob("*.json"))
NOT_RUN = [GRIDWORLD, MARKET]


def recomputed(template: Path) -> str:
    """Hash as a stranger would."""
    document = json.loads(template.read_bytes())
    composite = {
        "template": document,
        "version_pins": document.get("version_pins", {}),
        "dataset_hashes": document.get("dataset_hashes", {}),
    }
    return hashlib.sha256(rfc8785.dumps(composite)).hexdigest()


def in_bundle(report: dict[str, Any], name: str) -> dict[str, Any]:
    raw = (Path(cast("str", report["bundle_path"])) / name).read_bytes()
    return cast("dict[str, Any]", parse_object(raw))


def by_name(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("template", [NUMERALS, *NOT_RUN], ids=by_name)
def test_a_template_of_any_version_is_valid_and_hashed_as_it_was_written(
    template: Path, tmp_path: Path
) -> None:
    report = forked("theatre", "validate", template, "--json", home=tmp_path).document
    warned = ["scorers-not-committed"] if template == NUMERALS else []
    assert (report["valid"], report["errors"]) == (True, [])
    assert [warning["rule"] for warning in report["warnings"]] == warned
    answer = forked("theatre", "hash", template, "--json", home=tmp_path)
    assert (answer.code, answer.document) == (0, {"commitment_hash": recomputed(template)})


@pytest.mark.parametrize("template", NOT_RUN, ids=by_name)
def test_what_cannot_be_run_can_be_committed_and_shown_and_stays_so(
    template: Path, tmp_path: Path
) -> None:
    committed = forked("theatre", "commit", template, "--json", home=tmp_path).document
    assert (committed["state"], committed["commitment_hash"]) == ("COMMITTED", recomputed(template))
    store = FileTheatreStore(tmp_path)
    assert store.theatre_ids() == [committed["theatre_id"]]
    folder = store.folder(committed["theatre_id"])
    receipt = parse_object((folder / "commitment_receipt.json").read_bytes())
    assert receipt["template_snapshot"] == json.loads(template.read_bytes())
    assert (receipt["dataset_hashes"], receipt["scorer_pins"]) == ({}, {})
    assert (receipt["escrowed_capital"] is None) is (template == GRIDWORLD)
    shown = forked("theatre", "show", committed["theatre_id"], "--json", home=tmp_path).document
    assert (shown["state"], shown["outcome"]) == ("COMMITTED", None)
    answer = forked("theatre", "run", committed["theatre_id"], "--json", home=tmp_path)
    assert (answer.code, answer.document["error"]["code"]) == (5, "execution-path-unavailable")
    assert store.view(committed["theatre_id"]).state == "COMMITTED"


@pytest.mark.parametrize("template", NOT_RUN, ids=by_name)
def test_a_run_of_what_cannot_be_run_is_refused_before_anything_is_stored(
    template: Path, tmp_path: Path
) -> None:
    for more in ((), ("--new",)):
        answer = forked("theatre", "run", template, *more, "--json", home=tmp_path)
        assert (answer.code, answer.document["error"]["code"]) == (5, "execution-path-unavailable")
        assert template.stem in answer.document["error"]["message"]
    assert FileTheatreStore(tmp_path).theatre_ids() == []


def test_a_version_that_there_is_not_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    template = tmp_path / "template.json"
    template.write_bytes(NUMERALS.read_bytes().replace(b'"2.0.1"', b'"2.9.0"', 1))
    answer = forked("theatre", "validate", template, home=tmp_path / "home")
    assert (answer.code, answer.stdout.splitlines()) == (
        5,
        [
            (
                "error: /schema_version [schema:enum] expected one of 1.0.0, 2.0.1, 2.1.0, 2.2.0; "
                "got '2.9.0'"
            ),
            "invalid: 1 error(s)",
        ],
    )
    for command in ("hash", "commit", "run"):
        refused = forked("theatre", command, template, "--json", home=tmp_path / "home")
        assert (refused.code, refused.document["error"]["code"]) == (5, "template-invalid")
        assert "2.2.0; got '2.9.0'" in refused.document["error"]["message"]


def test_a_2_0_1_template_runs_by_the_defaults_and_the_evidence_names_them(tmp_path: Path) -> None:
    report = forked("theatre", "run", NUMERALS, "--json", home=tmp_path).document
    assert (report["outcome"], report["verification_tier"]) == ("certified", "UNVERIFIED")
    assert report["scores"] == {"roman_numeral": 1, "digit_sum": 1}
    # Sixty right answers: the tier is held down by this alone.
    assert report["caps"] == ["scorers-not-committed"]
    assert in_bundle(report, "template.json") == json.loads(NUMERALS.read_bytes())
    assert in_bundle(report, "commitment_receipt.json")["scorer_pins"] == {"exact_match": "1"}
    assert in_bundle(report, "tier.json")["facts"]["scorers_committed"] is False
    call = in_bundle(report, "invocations/episode_000001.json")["calls"][0]
    assert call["request"]["metadata"]["retry_policy"] == {"max_retries": 2, "backoff_seconds": 5}
    assert call["request"]["metadata"]["sanitised"] is True
    trail = (Path(report["bundle_path"]) / "audit_trail.jsonl").read_bytes().splitlines()
    (activated,) = (e for e in map(json.loads, trail) if e["event_type"] == "activated")
    assert activated["detail"]["scorers"] == {"exact_match": "1"}
    assert forked("check", report["bundle_path"], home=tmp_path).code == 0


@pytest.fixture
def own_copy(tmp_path: Path) -> Path:
    return shutil.copytree(VERSIONS, tmp_path / "versions") / NUMERALS.name


def changed(template: Path, **config: object) -> None:
    document = json.loads(template.read_bytes())
    document["product_theatre_config"] |= config
    template.write_text(json.dumps(document), encoding="utf-8")


def test_gold_labels_without_a_hash_cap_the_tier_and_are_no_evidence(
    own_copy: Path, tmp_path: Path
) -> None:
    changed(own_copy, gold_label_set="never_there.jsonl")
    validated = forked("theatre", "validate", own_copy, "--json", home=tmp_path / "home").document
    assert validated["valid"]
    assert [warning["rule"] for warning in validated["warnings"]] == [
        "gold-unpinned",
        "scorers-not-committed",
    ]
    report = forked("theatre", "run", own_copy, "--json", home=tmp_path / "home").document
    assert report["caps"] == ["scorers-not-committed", "gold-unpinned"]
    assert report["scores"] == {"roman_numeral": 1, "digit_sum": 1}
    ground_truth = Path(report["bundle_path"]) / "ground_truth"
    assert [path.name for path in ground_truth.iterdir()] == ["dataset.jsonl"]
    assert forked("check", report["bundle_path"], home=tmp_path / "home").code == 0


def test_gold_labels_with_a_hash_are_opened_and_kept(own_copy: Path, tmp_path: Path) -> None:
    raw = b'{"episode_id":"n124","label":{"sum":7},"labeller":"a test"}\n'
    own_copy.with_name("gold.jsonl").write_bytes(raw)
    changed(own_copy, gold_label_set="gold.jsonl")
    document = json.loads(own_copy.read_bytes())
    document["dataset_hashes"]["gold_labels"] = hashlib.sha256(raw).hexdigest()
    own_copy.write_text(json.dumps(document), encoding="utf-8")
    report = forked("theatre", "run", own_copy, "--json", home=tmp_path / "home").document
    assert report["caps"] == ["scorers-not-committed"]
    kept = Path(report["bundle_path"]) / "ground_truth" / "gold_labels.jsonl"
    assert kept.read_bytes() == raw


# --- the example's own data ------------------------------------------------------------------

DIGITS = (
    ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX"),
    ("", "X", "XX", "XXX", "XL", "L", "LX", "LXX", "LXXX", "XC"),
    ("", "C", "CC", "CCC", "CD", "D", "DC", "DCC", "DCCC", "CM"),
    ("", "M", "MM", "MMM"),
)


def test_the_expectations_of_the_example_follow_from_the_digits() -> None:
    lines = (VERSIONS / "numerals.jsonl").read_bytes().splitlines()
    numbers = []
    for episode in map(json.loads, lines):
        number = episode["input_data"]["number"]
        digits = [number // 10**place % 10 for place in range(4)]
        written = [DIGITS[place][digit] for place, digit in enumerate(digits)]
        assert episode["expected_output"] == {
            "roman_numeral": "".join(reversed(written)),
            "digit_sum": sum(digits),
        }
        numbers.append(number)
    assert len(set(numbers)) == 60
