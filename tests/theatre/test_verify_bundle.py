"""verify_bundle.py: one file of plain Python that says the same as `echelon check`.

Where the two differ is a list by place, with the reason. Both are asked of the same changes of the
same bundles: a sample, or all of them with ECHELON_TEST_MUTANTS=all (so with ECHELON_SOAK).
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.theatre.bundle_mutants import Mutant, mutants
from tests.theatre.conftest import run_small_theatre
from tests.theatre.every_feature import run_every_feature
from tests.theatre.every_rating import run_every_rating
from tests.theatre.forged_bundle import Effort, Files, check, load, resealed, store
from tests.theatre.mutation_survivors import put, setting
from tests.theatre.runs import LATE
from tests.theatre.test_bundle_mutations import full_history
from theatre.cli.check_command import check as check_command
from theatre.engine.bundle_check import Verdict
from theatre.engine.bundle_check.standalone import CHECKS, NOT_MADE, verify
from theatre.engine.bundle_check.verifier import verifier_source
from theatre.engine.canonical_json import canonical_line

pytestmark = pytest.mark.untraced

SAMPLE = 60
"""Mutants of a bundle, unless all are asked for."""

ONLY_THE_CHECK_SEES = {
    "invocations/": "runs no sanitiser, knows no reasons of the engine, and plays no episode again",
    "audit_trail.jsonl/episode_": "takes from the records what those entries repeat of them",
    "audit_trail.jsonl/human_score_refused/": "does not ask whether a refusal was right",
    "audit_trail.jsonl/human_score/": "does not ask how a comment or a name may be written",
    "audit_trail.jsonl/hitl_opened/": "does not ask when a step may be over",
    "audit_trail.jsonl/activated/": "has no sanitiser, computation or author to compare with",
    "audit_trail.jsonl/step_": "runs no computation",
    "hitl/": "does not ask how a comment or a name may be written",
    "resolution.json/steps/": "runs no computation, and takes the text of an error as it is",
    "commitment_receipt.json/": "has no rules of templates",
    "template.json/": "has no rules of templates",
    "scores/aggregate.json/score_intervals/": "does not resample",
    "scores/aggregate.json/computed/": "runs no computation",
    "scores/baselines.json/": "runs no scorer",
}
"""Where verify_bundle.py may let a change pass that `echelon check` refuses, and why."""

RUNS = {
    "of every outcome": lambda folder: run_small_theatre(folder, history=full_history()).sealed,
    "with every feature": run_every_feature,
    "that people rated": run_every_rating,
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file, as the command line writes it."""
    path = tmp_path_factory.mktemp("program") / "verify_bundle.py"
    result = CliRunner().invoke(check_command, ["--write-verifier", str(path)])
    assert (result.exit_code, result.output) == (0, "")
    return path


@pytest.fixture(scope="module", params=RUNS)
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sealed bundle of each sort."""
    return RUNS[request.param](tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def small_files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return load(run_small_theatre(tmp_path_factory.mktemp("small")).sealed)


@pytest.fixture
def small(small_files: Files, tmp_path: Path) -> Path:
    """A bundle that a test may change."""
    return store(small_files, tmp_path / "small")


def ran(program: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the file alone: no packages of this environment, no variables, no path."""
    command = [sys.executable, "-I", "-S", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_an_honest_bundle_is_consistent_without_anything_installed(
    program: Path, bundle: Path
) -> None:
    done = ran(program, bundle, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    assert (said["verdict"], said["valid"]) == ("consistent", False)
    assert [(line["id"], line["problems"]) for line in said["checks"]] == [(i, []) for i in CHECKS]
    assert said["not_made"] == NOT_MADE
    assert check(bundle).verdict is Verdict.CONSISTENT


def test_a_certificate_that_was_kept_makes_it_valid(
    program: Path, small: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.json"
    kept.write_bytes((small / "certificate.json").read_bytes())
    done = ran(program, small, "--certificate", kept)
    assert done.returncode == 0
    assert done.stdout.endswith("valid (equal to the certificate you gave): 24 checks\n")
    kept.write_bytes(kept.read_bytes().replace(b"UNVERIFIED", b"BACKTESTED"))
    done = ran(program, small, "--certificate", kept)
    assert done.returncode == 10
    assert "FAIL     certificate-copy\n" in done.stdout
    assert done.stdout.endswith("not valid (1 failed): 24 checks\n")
    inside = ran(program, small, "--certificate", small / "certificate.json")
    assert (inside.returncode, inside.stdout) == (2, "")


def test_a_changed_score_is_refused_by_name(
    program: Path, small_files: Files, tmp_path: Path
) -> None:
    lines = small_files["scores/per_episode.jsonl"].replace(b'"parity":0', b'"parity":1', 1)
    forged = resealed(small_files | {"scores/per_episode.jsonl": lines}, max(Effort))
    done = ran(program, store(forged, tmp_path / "forged"))
    assert (done.returncode, done.stderr) == (10, "")
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("FAIL")]
    assert failed == ["scores", "aggregate", "results-hash"]


def test_a_folder_that_is_no_bundle_has_an_exit_code_of_its_own(
    program: Path, tmp_path: Path
) -> None:
    done = ran(program, tmp_path)
    expected = "expected the folder of an evidence bundle, with a certificate.json\n"
    assert (done.returncode, done.stdout, done.stderr) == (5, "", expected)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null\n",
        b"[]\n",
        b"{}\n",
        b"[" * 100_000,
        b'{"a":1,"a":1}\n',
        b"NaN\n",
        b"1e999\n",
        b"9" * 5000 + b"\n",
        b'"\\ud800"\n',
        b"\xff\n",
    ],
)
def test_no_document_makes_it_crash(small: Path, raw: bytes) -> None:
    files = load(small)
    for name in files:
        put(small, files | {name: raw}, {name})
        assert verify(small, now=LATE).word == "not valid", name
        put(small, files, {name})
    assert verify(small, now=LATE).word == "consistent"


def chosen(every: list[Mutant]) -> list[Mutant]:
    """Return the mutants to try: all, or a sample that is the same every time."""
    if setting() == "all":
        return every
    ranked = sorted(every, key=lambda mutant: canonical_line([mutant.name, 7]))
    step = max(1, len(ranked) // SAMPLE)
    return ranked[::step]


def test_it_refuses_what_the_check_refuses(bundle: Path, tmp_path: Path) -> None:
    files = load(bundle)
    folder = store(files, tmp_path / "bundle")
    verdicts: Counter[tuple[bool, bool]] = Counter()
    differing = set()
    strongest = max(Effort)
    for mutant in chosen(list(mutants(files))):
        forged = mutant.forged(files, strongest)
        touched = {n for n in files.keys() | forged.keys() if files.get(n) != forged.get(n)}
        put(folder, forged, touched)
        ours, alone = check(folder).consistent, verify(folder, now=LATE).word == "consistent"
        put(folder, files, touched)
        verdicts[ours, alone] += 1
        if ours != alone:
            differing.add((mutant.place, alone))
    assert {
        (place, alone)
        for place, alone in differing
        if not (alone and place.startswith(tuple(ONLY_THE_CHECK_SEES)))
    } == set()
    assert verdicts[False, False] > SAMPLE // 2


def test_an_honest_bundle_that_is_made_anew_stays_consistent(bundle: Path, tmp_path: Path) -> None:
    files = load(bundle)
    folder = store(resealed(files, max(Effort)), tmp_path / "bundle")
    assert verify(folder, now=LATE).word == "consistent"


def test_the_file_has_every_name_once_and_imports_the_standard_library() -> None:
    tree = ast.parse(verifier_source())
    names = Counter(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)
    )
    assert [name for name, times in names.items() if times > 1] == []
    imported = {
        alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    } | {
        str(node.module).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    }
    assert imported <= sys.stdlib_module_names
