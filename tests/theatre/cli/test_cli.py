"""Each command as a real process: its one document on stdout, its keys, its exit code."""

import json
import shutil
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.theatre.cli.doubler import write_module, write_theatre
from tests.theatre.echelon_process import CARTOGRAPH, REPOSITORY, Answer, echelon
from tests.theatre.forked_echelon import forked
from theatre.axion.cli import cli as axion
from theatre.engine.canonical_json import sha256_hex
from theatre.files.theatre_store import FileTheatreStore
from theatre.oracles.construct_registry import construct_from_argv, construct_version

RUN_KEYS = {
    *("theatre_id", "state", "commitment_hash", "episodes_recorded", "outcome", "outcome_reason"),
    *("error_detail", "certificate_id", "verification_tier", "expires_at", "scores"),
    *("composite_score", "results_hash", "episode_counts", "caps", "findings", "data_audit"),
    *("baselines", "usage", "bundle_path", "draft_path", "statuses", "reasons", "evidence_path"),
    "log",
}
NO_ID = "00000000-0000-4000-8000-000000000000"
COMMITMENT = CARTOGRAPH.with_name("product_cartograph_v1.commitment.txt").read_text().strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What the cases need: a store with a resolved theatre and a small one, files of every sort."""

    home: Path
    folder: Path
    theatre_id: str
    run: Answer
    small: Answer
    """Of eight episodes: what is asked of any bundle is asked of its own."""

    @property
    def bundle(self) -> Path:
        return Path(self.small.document["bundle_path"])


def call(place: Place, *arguments: str | Path) -> Answer:
    return forked(*arguments, home=place.home, cwd=place.folder)


def alone(place: Place, folder: Path) -> Path:
    """Return the bundle without what shows who issued it."""
    ignored = shutil.ignore_patterns("proofs")
    return Path(shutil.copytree(place.bundle, folder / "alone", ignore=ignored))


def changed_template(
    place_folder: Path, name: str, change: Callable[[dict[str, Any]], object]
) -> None:
    template = json.loads(CARTOGRAPH.read_bytes())
    change(template)
    (place_folder / name).write_text(json.dumps(template), encoding="utf-8")


def doubler(folder: Path) -> Path:
    version = write_module(folder)
    return write_theatre(folder, adapter_type="python", endpoint="doubling:double", version=version)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("cli")
    home = folder / "home"
    run = forked("theatre", "run", CARTOGRAPH, "--json", home=home)
    assert run.code == 0, run.stderr
    small = forked("theatre", "run", doubler(folder), "--json", home=home)
    assert small.code == 0, small.stderr
    (folder / "empty").mkdir()
    (folder / "loop").symlink_to("loop")
    (folder / "not.json").write_text("{nonsense", encoding="utf-8")
    (folder / "twice.json").write_text('{"a": 1, "a": 2}', encoding="utf-8")
    (folder / "bad.yaml").write_text("domains: [", encoding="utf-8")
    (folder / "odd.yaml").write_text("domains: 3", encoding="utf-8")
    (folder / "date.yaml").write_text("domains: 2026-99-99", encoding="utf-8")
    (folder / "tag.yaml").write_text("domains: !!int ''", encoding="utf-8")
    (folder / "deep.yaml").write_text("[" * 1000, encoding="utf-8")

    def two_defects(template: dict[str, Any]) -> None:
        template["criteria"]["weights"]["hex_grid_accuracy"] = 0.6
        template["version_pins"]["constructs"] = {}

    def missing_data(template: dict[str, Any]) -> None:
        template["product_theatre_config"]["replay_data_path"] = "none.jsonl"

    def changed_data(template: dict[str, Any]) -> None:
        template["product_theatre_config"]["replay_data_path"] = "changed.jsonl"

    (folder / "changed.jsonl").write_text("{}\n", encoding="utf-8")
    changed_template(folder, "invalid.json", two_defects)
    changed_template(folder, "missing.json", missing_data)
    changed_template(folder, "changed.json", changed_data)
    return Place(
        home=home, folder=folder, theatre_id=run.document["theatre_id"], run=run, small=small
    )


# --- what succeeds ---------------------------------------------------------------------------


def test_validate_says_that_the_shipped_template_is_valid(place: Place) -> None:
    answer = call(place, "theatre", "validate", CARTOGRAPH, "--json")
    document = answer.document
    evidence = document.pop("evidence")
    assert (answer.code, document, answer.stderr) == (
        0,
        {"valid": True, "errors": [], "warnings": []},
        "",
    )
    assert evidence.keys() >= {"data_audit", "baselines"}
    told = {name: evidence[name] for name in evidence.keys() - {"data_audit", "baselines"}}
    assert told == {"findings": ["near-duplicates"], "caps": [], "unqualified": {}, "controls": {}}


def test_validate_warns_of_data_that_are_not_there(place: Place) -> None:
    answer = call(place, "theatre", "validate", "missing.json", "--json")
    assert (answer.code, answer.document["valid"], answer.document["errors"]) == (0, True, [])
    (warning,) = answer.document["warnings"]
    assert warning["pointer"] == "/dataset_hashes/cartograph_grid_reference"
    assert warning["rule"] == "dataset-file"


def test_hash_prints_the_committed_hash(place: Place) -> None:
    answer = call(place, "theatre", "hash", CARTOGRAPH, "--json")
    assert (answer.code, answer.document) == (0, {"commitment_hash": COMMITMENT})
    assert call(place, "theatre", "hash", CARTOGRAPH).stdout == f"{COMMITMENT}\n"


def test_commit_creates_a_committed_theatre_of_a_template_given_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(CARTOGRAPH)
    answer = forked("theatre", "commit", tmp_path / "link.json", "--json", home=tmp_path)
    assert answer.code == 0
    (theatre_id,) = FileTheatreStore(tmp_path).theatre_ids()
    assert answer.document == {
        "theatre_id": theatre_id,
        "state": "COMMITTED",
        "commitment_hash": COMMITMENT,
    }
    shown = forked("theatre", "show", theatre_id, "--json", home=tmp_path)
    assert shown.document == dict.fromkeys(RUN_KEYS) | answer.document | {
        "episodes_recorded": 0,
        "statuses": {"success": 0, "timeout": 0, "error": 0, "refused": 0},
        "reasons": [],
        "evidence_path": shown.document["evidence_path"],
    }


def test_run_reports_the_certificate(place: Place) -> None:
    document = place.run.document
    bundle = Path(document["bundle_path"])
    certificate = json.loads((bundle / "certificate.json").read_bytes())
    assert set(document) == RUN_KEYS
    assert (document["state"], document["outcome"]) == ("RESOLVED", "certified")
    assert document["commitment_hash"] == COMMITMENT
    copied = RUN_KEYS & set(certificate)
    assert {name: document[name] for name in copied} == {name: certificate[name] for name in copied}
    assert copied >= {"certificate_id", "scores", "caps", "episode_counts", "verification_tier"}
    assert bundle == (
        place.home / "theatres" / place.theatre_id / f"evidence_bundle_{place.theatre_id}"
    )


def test_show_reports_what_run_reported(place: Place) -> None:
    answer = call(place, "theatre", "show", place.theatre_id, "--json")
    assert (answer.code, answer.document) == (0, place.run.document)


def test_check_has_one_entry_a_check(place: Place) -> None:
    answer = call(place, "check", place.bundle, "--json")
    assert (answer.code, answer.document["verdict"], answer.stderr) == (0, "valid, logged", "")
    for check in answer.document["checks"]:
        assert set(check) == {"id", "ok", "status", "expected", "actual"}
        assert check["ok"] is {"pass": True, "unanchored": None}[check["status"]]


def test_check_holds_the_bundle_against_the_issuers_certificate(
    place: Place, tmp_path: Path
) -> None:
    own = Path(shutil.copy(place.bundle / "certificate.json", tmp_path / "own.json"))
    answer = call(place, "check", place.bundle, "--certificate", own, "--json")
    assert answer.code == 0
    other = tmp_path / "other.json"
    other.write_bytes(own.read_bytes().replace(b'"issuer":"local"', b'"issuer":"other"'))
    answer = call(place, "check", place.bundle, "--certificate", other, "--json")
    failed = [check["id"] for check in answer.document["checks"] if check["ok"] is False]
    assert (answer.code, failed) == (10, ["certificate-copy"])


def test_gate_prints_declared_and_effective_review(place: Place) -> None:
    expertise = REPOSITORY / "fixtures" / "constructs" / "cartograph" / "expertise.yaml"
    answer = call(place, "gate", expertise, "--json")
    names = ["hex_geometry", "isometric_projection", "detail_density", "style_guide"]
    assert (answer.code, answer.document) == (
        0,
        {
            "domains": [
                {
                    "name": name,
                    "tier": "UNVERIFIED",
                    "declared": "skip",
                    "effective": "full",
                    "overridden": True,
                    "reason": "tier-unverified",
                }
                for name in names
            ]
        },
    )
    table = call(place, "gate", expertise).stdout.splitlines()
    assert table[0].split() == ["domain", "tier", "declared", "effective", "reason"]
    assert [line.split() for line in table[2:]] == [
        [name, "UNVERIFIED", "skip", "full", "tier-unverified"] for name in names
    ]


def test_two_runs_of_a_template_give_two_certificates_with_the_same_results(place: Place) -> None:
    again = call(place, "theatre", "run", "template.json", "--json").document
    first = place.small.document
    differ = {name for name in RUN_KEYS - {"usage"} if again[name] != first[name]}
    assert differ == {"theatre_id", "certificate_id", "bundle_path", "evidence_path", "log"}


def test_help_is_no_failure(place: Place) -> None:
    for command in ((), ("theatre",), ("theatre", "run"), ("check",), ("gate",), ("demo",)):
        answer = call(place, *command, "--help")
        assert (answer.code, answer.stderr) == (0, "")
        assert answer.stdout.startswith(f"Usage: echelon {' '.join(command)}".rstrip())


def test_both_programs_say_their_version(place: Place) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert call(place, "--version").stdout == f"echelon {project['version']}\n"
    other = CliRunner().invoke(axion, ["--version"])
    assert other.stdout == f"toy-pseudo-axion {project['version']}\n"


# --- what fails ------------------------------------------------------------------------------

FAILURES: Mapping[str, tuple[tuple[str, ...], int, str]] = {
    "unknown command": (("nonsense",), 2, "usage"),
    "unknown subcommand": (("theatre", "nonsense"), 2, "usage"),
    "unknown option": (("theatre", "show", NO_ID, "--nonsense"), 2, "usage"),
    "no template": (("theatre", "validate"), 3, "not-found"),
    "no bundle named": (("check",), 2, "usage"),
    "one argument too many": (("theatre", "show", NO_ID, NO_ID), 2, "usage"),
    "batch of none": (("theatre", "run", NO_ID, "--batch-episodes", "0"), 2, "usage"),
    "no call at a time": (("theatre", "run", NO_ID, "--concurrency", "0"), 2, "usage"),
    "validate: no file": (("theatre", "validate", "none.json"), 3, "not-found"),
    "validate: folder": (("theatre", "validate", "empty"), 3, "not-found"),
    "validate: below a file": (("theatre", "validate", "not.json/x"), 3, "not-found"),
    "run: no file, no id": (("theatre", "run", "none.json"), 3, "not-found"),
    "run: unknown id": (("theatre", "run", NO_ID), 3, "not-found"),
    "show: unknown id": (("theatre", "show", NO_ID), 3, "not-found"),
    "show: path instead of id": (("theatre", "show", "../theatres"), 3, "not-found"),
    "check: no such certificate": (("check", "BUNDLE", "--certificate", "none"), 3, "not-found"),
    "check: certificate is a folder": (("check", "BUNDLE", "--certificate", "."), 3, "not-found"),
    "attest: a loop of links": (("attest", "BUNDLE", "--trust", "loop", "--out", "x"), 1, "system"),
    "gate: no file": (("gate", "none.yaml"), 3, "not-found"),
    "gate: folder": (("gate", "empty"), 3, "not-found"),
    "validate: no JSON": (("theatre", "validate", "not.json"), 5, "not-strict-json"),
    "validate: a key twice": (("theatre", "validate", "twice.json"), 5, "not-strict-json"),
    "hash: invalid": (("theatre", "hash", "invalid.json"), 5, "template-invalid"),
    "commit: invalid": (("theatre", "commit", "invalid.json"), 5, "template-invalid"),
    "run: invalid": (("theatre", "run", "invalid.json"), 5, "template-invalid"),
    "commit: data missing": (("theatre", "commit", "missing.json"), 5, "dataset-invalid"),
    "commit: data changed": (("theatre", "commit", "changed.json"), 5, "dataset-mismatch"),
    "check: empty folder": (("check", "empty"), 5, "bundle-invalid"),
    "check: nothing there": (("check", "none"), 3, "not-found"),
    "gate: no YAML": (("gate", "bad.yaml"), 5, "expertise-invalid"),
    "gate: another shape": (("gate", "odd.yaml"), 5, "expertise-invalid"),
    "gate: no such day": (("gate", "date.yaml"), 5, "expertise-invalid"),
    "gate: a tag on nothing": (("gate", "tag.yaml"), 5, "expertise-invalid"),
    "gate: too deep": (("gate", "deep.yaml"), 5, "expertise-invalid"),
    "run: resolved": (("theatre", "run", "THEATRE"), 6, "invalid-transition"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_failure_is_one_document_and_a_code_or_one_message(place: Place, case: str) -> None:
    words, code, error_code = FAILURES[case]
    names: dict[str, str | Path] = {"BUNDLE": place.bundle, "THEATRE": place.theatre_id}
    arguments = [names.get(word, word) for word in words]
    before = FileTheatreStore(place.home).theatre_ids()

    answer = call(place, *arguments, "--json")

    assert (answer.code, answer.stderr) == (code, "")
    assert set(answer.document) == {"error"}
    assert set(answer.document["error"]) == {"code", "message"}
    assert answer.document["error"]["code"] == error_code
    assert answer.document["error"]["message"]
    assert FileTheatreStore(place.home).theatre_ids() == before


@pytest.mark.parametrize("case", ["unknown command", "show: unknown id", "commit: data changed"])
def test_without_json_a_failure_is_a_message_on_stderr_alone(place: Place, case: str) -> None:
    words, code, error_code = FAILURES[case]
    answer = call(place, *words)
    assert (answer.code, answer.stdout) == (code, "")
    assert answer.stderr.startswith(f"error ({error_code}): ")


def test_validate_lists_every_violation_with_pointer_and_rule(place: Place) -> None:
    answer = call(place, "theatre", "validate", "invalid.json", "--json")
    assert (answer.code, answer.document["valid"], answer.stderr) == (5, False, "")
    assert [set(error) for error in answer.document["errors"]] == [
        {"pointer", "rule", "detail"}
    ] * 3
    assert [(error["pointer"], error["rule"]) for error in answer.document["errors"]] == [
        ("/criteria/weights", "weights-sum-to-one"),
        ("/product_theatre_config/construct_under_test", "construct-under-test-pinned"),
        ("/resolution_programme/0/construct_id", "programme-construct-pinned"),
    ]
    text = call(place, "theatre", "validate", "invalid.json")
    assert text.code == 5
    assert text.stdout.splitlines()[-1] == "invalid: 3 error(s)"
    assert text.stdout.splitlines()[0].startswith(
        "error: /criteria/weights [weights-sum-to-one] expected"
    )


def test_commit_of_an_invalid_template_names_every_violation(place: Place) -> None:
    message = call(place, "theatre", "commit", "invalid.json", "--json").document["error"][
        "message"
    ]
    assert message.startswith("the template breaks 3 rule(s):\n")
    for rule in ("weights-sum-to-one", "construct-under-test-pinned", "programme-construct-pinned"):
        assert f"[{rule}]" in message


def test_a_theatre_that_another_process_holds_is_in_the_wrong_state(tmp_path: Path) -> None:
    commit = forked("theatre", "commit", CARTOGRAPH, "--json", home=tmp_path)
    theatre_id = commit.document["theatre_id"]
    with FileTheatreStore(tmp_path).hold(theatre_id):
        answer = forked("theatre", "run", theatre_id, "--json", home=tmp_path)
        shown = forked("theatre", "show", theatre_id, "--json", home=tmp_path)
    assert (answer.code, answer.document["error"]["code"]) == (6, "state-conflict")
    assert (shown.code, shown.document["state"]) == (0, "COMMITTED")


def test_a_draft_cannot_be_run(tmp_path: Path) -> None:
    template = json.loads(CARTOGRAPH.read_bytes())
    FileTheatreStore(tmp_path).create_folder(NO_ID, template, template_folder=tmp_path)
    answer = forked("theatre", "run", NO_ID, "--json", home=tmp_path)
    assert (answer.code, answer.document["error"]["code"]) == (6, "invalid-transition")


def test_a_forged_bundle_fails_its_check_by_name(place: Place, tmp_path: Path) -> None:
    forged = shutil.copytree(place.bundle, tmp_path / "forged")
    certificate = forged / "certificate.json"
    certificate.write_bytes(
        certificate.read_bytes().replace(b'"replay_count":8', b'"replay_count":9')
    )
    answer = call(place, "check", forged, "--json")
    failed = {check["id"] for check in answer.document["checks"] if check["ok"] is False}
    assert (answer.code, answer.document["valid"]) == (10, False)
    assert "certificate-fields" in failed
    text = call(place, "check", forged)
    assert text.code == 10
    assert "FAIL         certificate-fields" in text.stdout.splitlines()
    assert text.stdout.splitlines()[-1].startswith("not valid (")


def verdict(answer: Answer) -> str:
    return answer.stdout.splitlines()[-1]


def test_a_certificate_makes_a_bundle_valid_only_from_outside_of_it(
    place: Place, tmp_path: Path
) -> None:
    kept = Path(shutil.copy(place.bundle / "certificate.json", tmp_path / "kept.json"))
    evidence = alone(place, tmp_path)
    unsigned = call(place, "check", evidence)
    assert unsigned.code == 0
    assert verdict(unsigned) == "consistent (no one vouches for it): 38 checks"
    given = call(place, "check", evidence, "--certificate", kept)
    assert given.code == 0
    assert verdict(given) == "valid (equal to the certificate you gave): 38 checks"
    (tmp_path / "link.json").symlink_to(place.bundle / "certificate.json")
    (tmp_path / "bundle").symlink_to(place.bundle)
    inside = [
        (place.bundle, place.bundle / "certificate.json"),
        (place.bundle, tmp_path / "link.json"),
        (place.bundle, place.bundle / "scores" / ".." / "certificate.json"),
        (tmp_path / "bundle", place.bundle / "certificate.json"),
        (place.bundle, tmp_path / "bundle" / "certificate.json"),
    ]
    for bundle, certificate in inside:
        refused = call(place, "check", bundle, "--certificate", certificate, "--json")
        told = refused.document["error"]
        assert (refused.code, told["code"]) == (2, "usage")
        assert "expected a certificate kept outside the bundle" in told["message"]


def test_what_is_required_of_a_verdict_is_an_exit_code(place: Place, tmp_path: Path) -> None:
    kept = Path(shutil.copy(place.bundle / "certificate.json", tmp_path / "kept.json"))
    evidence = alone(place, tmp_path)
    forged = shutil.copytree(evidence, tmp_path / "forged")
    (forged / "notes.txt").write_bytes(b"")
    codes = {
        (name, require): call(place, "check", *given, "--require", require, "--json").code
        for name, given in {
            "by its author": (place.bundle,),
            "alone": (evidence,),
            "with its certificate": (evidence, "--certificate", kept),
            "forged": (forged, "--certificate", kept),
        }.items()
        for require in ("valid", "logged")
    }
    assert codes == {
        ("by its author", "valid"): 0,
        ("by its author", "logged"): 0,
        ("alone", "valid"): 9,
        ("alone", "logged"): 9,
        ("with its certificate", "valid"): 0,
        ("with its certificate", "logged"): 9,
        ("forged", "valid"): 10,
        ("forged", "logged"): 10,
    }


def test_a_scorer_that_is_not_installed_leaves_the_check_incomplete(tmp_path: Path) -> None:
    site = tmp_path / "site"
    info = site / "exact_again-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "exact_again.py").write_text(
        "from dataclasses import replace\n"
        "from theatre.scorers.exact_match import SCORER as ORIGINAL\n"
        'SCORER = replace(ORIGINAL, name="exact_again", version="1")\n',
        encoding="utf-8",
    )
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: exact-again\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[echelon.scorers]\nexact_again = exact_again:SCORER\n")

    def own_scorer(template: dict[str, Any]) -> None:
        for criterion in template["scoring"]["criteria_scorers"].values():
            criterion["scorer"] = "exact_again"
        template["scorer_pins"] = {"exact_again": "1"}
        template["version_pins"]["scorer_version"] = "exact_again@1"

    changed_template(tmp_path, "own.json", own_scorer)
    own = tmp_path / "own.json"
    home = tmp_path / "home"
    run = echelon("theatre", "run", own, "--json", home=home, more={"PYTHONPATH": str(site)})
    assert run.code == 0, run.stdout
    bundle = run.document["bundle_path"]
    there = echelon("check", bundle, home=home, more={"PYTHONPATH": str(site)})
    assert there.code == 0
    gone = forked("check", bundle, "--json", home=home)
    statuses = {check["id"]: check["status"] for check in gone.document["checks"]}
    assert (gone.code, gone.document["valid"]) == (8, False)
    assert statuses["scorers"] == "unavailable"
    assert "fail" not in statuses.values()


def test_a_run_of_a_construct_that_raises_says_why_and_where_its_evidence_is(
    tmp_path: Path,
) -> None:
    program = tmp_path / "raises.py"
    program.write_text('import json\ninput()\njson.load(open("tea.json"))\n')
    endpoint = json.dumps(["{python}", str(program)])
    template = write_theatre(
        tmp_path,
        adapter_type="local",
        endpoint=endpoint,
        version=construct_version(construct_from_argv("doubler", endpoint, tmp_path)),
    )
    home = tmp_path / "home"
    run = forked("theatre", "run", template, "--json", home=home)
    told = run.document
    assert (run.code, set(told), told["state"]) == (1, RUN_KEYS, "RESOLVED")
    assert (told["outcome"], told["outcome_reason"]) == ("no_certificate", "nothing-scored")
    assert (told["certificate_id"], told["bundle_path"]) == (None, None)
    assert told["statuses"] == {"success": 0, "refused": 0, "timeout": 0, "error": 2}
    (reason,) = told["reasons"]
    assert (reason["code"], reason["count"]) == ("crashed", 2)
    assert reason["example"] == {
        "episode_id": "e1",
        "error_detail": reason["example"]["error_detail"],
        "stderr": "FileNotFoundError: [Errno 2] No such file or directory: 'tea.json'",
    }
    # When it comes, not at the end: each further episode waits for its retries.
    assert f"\nfirst failed e1: {reason['example']['error_detail']}\n" in run.stderr
    folder = Path(told["evidence_path"])
    assert folder == home / "theatres" / told["theatre_id"]
    assert len((folder / "journal.jsonl").read_bytes().splitlines()) == 2
    shown = forked("theatre", "show", told["theatre_id"], home=home).stdout.splitlines()
    assert shown[-7:-2] == [
        "answers   0 success, 0 timeout, 2 error, 0 refused",
        "failed    2x crashed",
        f"          as e1: {reason['example']['error_detail']}",
        f"          stderr: {reason['example']['stderr']}",
        f"evidence  {folder}",
    ]
    place = told["log"]
    assert shown[-2:] == [
        f"logged    entry 0 of {place['origin']}, void (nothing-scored) by entry 1",
        "record    run 1 of 1",
    ]


# --- surroundings ----------------------------------------------------------------------------


REGISTRY = """
[constructs.doubler]
argv = ["{python}", "-m", "theatre.construct_kit", "--stdio", "--folder", "{folder}", "doubling:double"]
folder = "."
files = ["doubling.py"]
"""  # noqa: E501 - one line, as an author would write it


def test_data_constructs_and_issuer_come_from_the_environment(tmp_path: Path) -> None:
    code, data = tmp_path / "code", tmp_path / "roots" / "second" / "mine.jsonl"
    code.mkdir()
    data.parent.mkdir(parents=True)
    (code / "mine.toml").write_text(REGISTRY, encoding="utf-8")
    template = write_theatre(
        tmp_path,
        adapter_type="local",
        endpoint="construct:doubler",
        version=write_module(code, REGISTRY),
        config={"replay_data_path": data.name},
    )
    (tmp_path / "numbers.jsonl").rename(data)
    registered = {"ECHELON_CONSTRUCTS": str(code / "mine.toml")}
    places = registered | {
        "ECHELON_DATASET_ROOTS": f"{tmp_path / 'roots'}:{data.parent}",
        "ECHELON_ISSUER": "Prüfstelle 7",
    }
    home = tmp_path / "home"
    without = forked("theatre", "run", template, "--json", home=home)
    assert (without.code, without.document["error"]["code"]) == (3, "construct-unknown")
    without = forked("theatre", "run", template, "--json", home=home, more=registered)
    assert (without.code, without.document["error"]["code"]) == (5, "dataset-invalid")
    answer = forked("theatre", "run", template, "--json", home=home, more=places)
    assert answer.code == 0, answer.stdout
    certificate = json.loads(
        (Path(answer.document["bundle_path"]) / "certificate.json").read_bytes()
    )
    assert certificate["issuer"] == "Prüfstelle 7"
    assert certificate["dataset_hash"] == sha256_hex(data.read_bytes())


def test_paths_may_hold_spaces_and_any_unicode(tmp_path: Path) -> None:
    folder = tmp_path / "mit Leerzeichen" / "Bühne ☃ 𝄞"
    folder.mkdir(parents=True)
    shutil.copy(CARTOGRAPH, folder / "Vorlage №1.json")
    run = echelon("theatre", "run", "Vorlage №1.json", "--json", home=folder / "Haus", cwd=folder)
    assert run.code == 0, run.stdout
    bundle = run.document["bundle_path"]
    assert bundle.startswith(str(folder / "Haus"))
    check = forked("check", bundle, home=folder)
    assert check.code == 0
    shown = forked("theatre", "show", run.document["theatre_id"], home=folder / "Haus", cwd=folder)
    assert str(Path(bundle).relative_to(folder)) in shown.stdout


def test_a_file_name_that_is_no_utf_8_is_answered_in_utf_8(tmp_path: Path) -> None:
    name = b"\xff\xfe.json".decode("utf-8", "surrogateescape")
    answer = echelon("theatre", "validate", name, "--json", home=tmp_path)
    assert (answer.code, answer.document["error"]["code"]) == (3, "not-found")
    assert r"\udcff\udcfe.json" in answer.stdout
    text = echelon("theatre", "validate", name, home=tmp_path)
    assert (
        text.stderr == "error (not-found): expected a template file at ??.json, got no such file\n"
    )
