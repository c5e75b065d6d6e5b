"""verify_bundle.py: one file of plain Python that says the same as `echelon check`.

Where the two differ is a list by place, with the reason. Both are asked of the same changes of the
same bundles: a sample, or all of them with ECHELON_TEST_MUTANTS=all (so with ECHELON_SOAK).
"""

import ast
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.theatre.bundle_mutants import Mutant, mutants
from tests.theatre.conftest import SmallRun, run_small_theatre
from tests.theatre.forged_bundle import Effort, Files, check, load, resealed, store
from tests.theatre.mutation_survivors import fits, put, setting
from tests.theatre.played_runs import run_played
from tests.theatre.runs import LATE
from tests.theatre.test_bundle_mutations import full_history
from theatre.cli.check_command import check as check_command
from theatre.cli.exits import CommandEndedError, ExitCode
from theatre.engine.bundle_check import Verdict
from theatre.engine.bundle_check.plain_proofs import PROOF_CHECKS
from theatre.engine.bundle_check.standalone import CHECKS, NOT_MADE, verify
from theatre.engine.bundle_check.verifier import verifier_source
from theatre.engine.canonical_json import canonical_line

SAMPLE = 30
"""Mutants of a bundle, unless all are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A place of which only the check can tell that it was changed; `kinds` empty: in any way."""

    place: str
    why: str
    kinds: frozenset[str] = frozenset()

    def holds(self, mutant: Mutant) -> bool:
        """Tell whether a change may pass verify_bundle.py for this reason."""
        return fits(mutant.place, self.place) and (not self.kinds or mutant.kind in self.kinds)


COMPUTES = "it runs no computation"
SCORES = "it runs no scorer, and knows no JSON Schema"
CLEANS = "it runs no sanitiser"
RESAMPLES = "it does not resample"
TOLD = "audit_trail.jsonl/step_completed/detail/result/output"
OUTPUT = "resolution.json/steps/*/result/output"
ANSWER = "invocations/*/calls/*/attempts/*/response/output_data/*"
BASELINES, CERTIFIED = "scores/baselines.json", "certificate.json/baselines"
BASELINE = f"{BASELINES}/criteria/*/*"
INTERVAL = "scores/aggregate.json/score_intervals/composite_score"
RATED_INTERVAL = "scores/aggregate.json/score_intervals/colour"
ONE_MORE, OTHER_TEXT = frozenset({"a member more"}), frozenset({"another text"})
OTHER_NUMBER = frozenset({"another number"})
OTHER_VALUE = frozenset(
    {
        *("a member less", "a number for a text", "a number for a truth", "a text for a number"),
        *("a truth for a number", "another number", "another text", "the other truth"),
    }
)
ONLY_THE_CHECK_SEES = [
    Difference(place=TOLD, kinds=ONE_MORE, why=COMPUTES),
    Difference(place=f"{TOLD}/**", why=COMPUTES),
    Difference(place=OUTPUT, kinds=ONE_MORE, why=COMPUTES),
    Difference(place=f"{OUTPUT}/**", why=COMPUTES),
    Difference(place=ANSWER, kinds=OTHER_VALUE, why=SCORES),
    Difference(place="invocations/*/sanitised/fields/*/path", kinds=OTHER_TEXT, why=CLEANS),
    Difference(
        place="invocations/*/sanitised/wrong_keys/*",
        kinds=OTHER_TEXT | {"an item more"},
        why=CLEANS,
    ),
    Difference(place=BASELINE, kinds=frozenset({"null for a container"}), why=SCORES),
    Difference(place=f"{BASELINE}/interval/method", kinds=frozenset({"another word"}), why=SCORES),
    Difference(place=f"{INTERVAL}/low", kinds=OTHER_NUMBER, why=RESAMPLES),
    Difference(place=f"{INTERVAL}/high", kinds=OTHER_NUMBER, why=RESAMPLES),
    Difference(place=f"{RATED_INTERVAL}/low", kinds=OTHER_NUMBER, why=RESAMPLES),
]
"""Where verify_bundle.py may let a change pass that `echelon check` refuses, and why."""

RUNS = ("of every outcome", "with every feature", "that people rated")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file, as the command line writes it."""
    path = tmp_path_factory.mktemp("program") / "verify_bundle.py"
    result = CliRunner().invoke(check_command, ["--write-verifier", str(path)])
    assert (result.exit_code, result.output) == (0, "")
    return path


@pytest.fixture(scope="module")
def bundles(
    tmp_path_factory: pytest.TempPathFactory, every_feature: Path, every_rating: Path
) -> dict[str, Path]:
    """A sealed bundle of each sort."""
    small = run_small_theatre(tmp_path_factory.mktemp("run"), history=full_history()).sealed
    return dict(zip(RUNS, (small, every_feature, every_rating), strict=True))


@pytest.fixture(scope="module", params=RUNS)
def bundle(request: pytest.FixtureRequest, bundles: dict[str, Path]) -> Path:
    """One of them."""
    return bundles[request.param]


@pytest.fixture(scope="module")
def small_files(real_run: SmallRun) -> Files:
    return load(real_run.sealed)


@pytest.fixture
def small(small_files: Files, tmp_path: Path) -> Path:
    """A bundle that a test may change."""
    return store(small_files, tmp_path / "small")


def test_who_has_the_file_written_has_a_bundle_checked_all_the_same(small: Path) -> None:
    """The adversary `silent-gate`: a job that does both in one line must not pass any bundle."""
    (small / "certificate.json").write_text("{}", encoding="utf-8")
    written = small.parent / "verify_bundle.py"
    ended = CliRunner().invoke(check_command, [str(small), "--write-verifier", str(written)])
    assert isinstance(ended.exception, CommandEndedError)
    assert (ended.exception.code, written.exists()) == (ExitCode.CHECK_FAILED, True)


def ran(program: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the file alone: no packages of this environment, no variables, no path."""
    command = [sys.executable, "-I", "-S", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_an_honest_bundle_is_consistent_without_anything_installed(
    program: Path, bundle: Path
) -> None:
    done = ran(program, bundle, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    assert (said["verdict"], said["valid"]) == ("consistent", False)
    made = {line["id"]: line["ok"] for line in said["checks"]}
    assert made == dict.fromkeys(CHECKS, True) | dict.fromkeys(PROOF_CHECKS)
    assert said["not_made"] == NOT_MADE
    assert check(bundle).verdict is Verdict.CONSISTENT


def test_a_certificate_that_was_kept_makes_it_valid(
    program: Path, small: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.json"
    kept.write_bytes((small / "certificate.json").read_bytes())
    done = ran(program, small, "--certificate", kept)
    assert done.returncode == 0
    assert done.stdout.endswith("valid (equal to the certificate you gave): 32 checks\n")
    kept.write_bytes(kept.read_bytes().replace(b"UNVERIFIED", b"BACKTESTED"))
    done = ran(program, small, "--certificate", kept)
    assert done.returncode == 10
    assert "FAIL     certificate-copy\n" in done.stdout
    assert done.stdout.endswith("not valid (1 failed): 32 checks\n")
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


def test_two_rubrics_of_one_step_are_refused(bundles: dict[str, Path], tmp_path: Path) -> None:
    files = load(bundles["that people rated"])
    template = json.loads(files["template.json"])
    template["hitl_steps"].append(template["hitl_steps"][0] | {"items": 1})
    forged = resealed(files | {"template.json": canonical_line(template)}, max(Effort))
    problems = verify(store(forged, tmp_path / "forged"), now=LATE).problems
    expected = "template.json: expected a rubric for each step_id, got one twice"
    assert expected in problems["human-scores"]


def test_a_folder_that_is_no_bundle_has_an_exit_code_of_its_own(
    program: Path, tmp_path: Path
) -> None:
    done = ran(program, tmp_path)
    expected = "expected the folder of an evidence bundle, with a certificate.json\n"
    assert (done.returncode, done.stdout, done.stderr) == (5, "", expected)


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(program: Path, small: Path) -> None:
    trail = small / "audit_trail.jsonl"
    trail.unlink()
    os.mkfifo(trail)
    done = ran(program, small)
    assert (done.returncode, "audit_trail.jsonl: no file" in done.stdout) == (10, True)


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


def in_turn(every: Iterable[Mutant]) -> list[Mutant]:
    """Return the mutants in an order that is the same every time, and no order of places."""
    return sorted(every, key=lambda mutant: canonical_line([mutant.name, 7]))


def chosen(every: Iterable[Mutant]) -> list[Mutant]:
    """Return the mutants to try: all, or a sample that is the same every time."""
    ranked = in_turn(every)
    return ranked if setting() == "all" else ranked[:: max(1, len(ranked) // SAMPLE)]


@dataclass(frozen=True, slots=True)
class Target:
    """A bundle in a folder, to be changed and put back."""

    files: Files
    folder: Path

    def verdicts(self, mutant: Mutant) -> tuple[bool, bool]:
        """Return whether the check, and the file, pass what the strongest forger makes of it."""
        with self.forged(mutant):
            alone = verify(self.folder, now=LATE).word
            return check(self.folder).consistent, alone == "consistent"

    def problems(self, mutant: Mutant) -> list[str]:
        """Return what the file says of it."""
        with self.forged(mutant):
            return [
                one for found in verify(self.folder, now=LATE).problems.values() for one in found
            ]

    @contextmanager
    def forged(self, mutant: Mutant) -> Iterator[None]:
        """Put the forged files in place of the honest ones, and those back."""
        forged = mutant.forged(self.files, max(Effort))
        every = self.files.keys() | forged.keys()
        touched = {name for name in every if self.files.get(name) != forged.get(name)}
        put(self.folder, forged, touched)
        try:
            yield
        finally:
            put(self.folder, self.files, touched)


Targets = dict[str, tuple[Target, dict[tuple[str, str, str], list[Mutant]]]]
"""Run → its bundle, and the mutants of that by kind, place and file."""


def target(bundle: Path, folder: Path) -> Target:
    """Return a copy of a bundle that may be changed."""
    files = load(bundle)
    return Target(files, store(files, folder))


def test_it_refuses_what_the_check_refuses(bundle: Path, tmp_path: Path) -> None:
    tried = target(bundle, tmp_path / "bundle")
    found = [(mutant, tried.verdicts(mutant)) for mutant in chosen(mutants(tried.files))]
    assert [
        (mutant.name, verdicts)
        for mutant, verdicts in found
        if verdicts in {(True, False), (False, True)}
        and not (verdicts == (False, True) and any(d.holds(mutant) for d in ONLY_THE_CHECK_SEES))
    ] == []
    assert Counter(verdicts for _, verdicts in found)[False, False] > SAMPLE // 2


def test_what_trivial_players_are_said_to_score_is_held_by_both(tmp_path: Path) -> None:
    """One change of each place in the baselines of interactive episodes, or all."""
    tried = target(run_played(tmp_path / "run"), tmp_path / "bundle")
    said = [
        mutant
        for mutant in in_turn(mutants(tried.files))
        if any(fits(mutant.place, place) for place in (f"{BASELINES}/**", f"{CERTIFIED}/**"))
    ]
    if setting() != "all":
        said = list({mutant.place: mutant for mutant in said}.values())
    found = {mutant: tried.verdicts(mutant) for mutant in said}
    assert [mutant.name for mutant, (passed, _) in found.items() if passed] == []
    assert [
        mutant.name
        for mutant, (_, passed) in found.items()
        if passed and not any(difference.holds(mutant) for difference in ONLY_THE_CHECK_SEES)
    ] == []


def test_no_difference_stands_on_the_list_in_vain(bundles: dict[str, Path], tmp_path: Path) -> None:
    unseen = set(ONLY_THE_CHECK_SEES)
    if setting() == "all":
        unseen = {
            replace(one, kinds=kinds)
            for one in unseen
            for kinds in [frozenset({kind}) for kind in one.kinds] or [one.kinds]
        }
    for name, bundle in bundles.items():
        tried = target(bundle, tmp_path / name)
        for mutant in in_turn(mutants(tried.files)):
            meant = {one for one in unseen if one.holds(mutant)}
            if meant and tried.verdicts(mutant) == (False, True):
                unseen -= meant
    assert unseen == set()


RECORDS, PEOPLE, SMALL = "with every feature", "that people rated", "of every outcome"
CALL = "invocations/*/calls/*"
ATTEMPT = f"{CALL}/attempts/*"
CLEANED, UNSENT, MISFIT, FAILED = (f"invocations/episode_{n:06d}.json" for n in (1, 3, 5, 10))
TRIED = "invocations/episode_000006.json"
CLEANING = "invocations/*/sanitised"
TRAIL, ISSUED, AGGREGATE = "audit_trail.jsonl", "certificate.json", "scores/aggregate.json"
START, SCORE = f"{TRAIL}/activated/detail", f"{TRAIL}/human_score/detail"
CLOSED, RECEIPT = f"{START}/isolation", "commitment_receipt.json"
SEQS = f"{TRAIL}/episodes_recorded/detail/seqs/*/*"
REFUSED_SCORE = f"{TRAIL}/human_score_refused/detail"
CONSTANT = f"{BASELINES}/criteria/overlap/most_frequent/score"
FAILED_STEP = f"{TRAIL}/step_failed/detail/result"
# fmt: off
RULES = [
    (RECORDS, "a member more", "invocations/*", CLEANED, "other members than a record has"),
    (RECORDS, "another text", f"{CALL}/adapter", CLEANED, "another adapter than the trail names"),
    (RECORDS, "a number for a text", f"{CALL}/version_source", CLEANED, "a call of another form"),
    (RECORDS, "a text for null", f"{ATTEMPT}/raw", CLEANED, "an answer that was accepted"),
    (RECORDS, "another text", f"{ATTEMPT}/response/status", CLEANED, "with the reason None"),
    (PEOPLE, "a text for null", f"{ATTEMPT}/reason", TRIED, "the reason ''"),
    (RECORDS, "another text", f"{ATTEMPT}/raw", MISFIT, "output-spec without the output"),
    (RECORDS, "an item less", ATTEMPT, FAILED, "not tried again"),
    (RECORDS, "an item more", ATTEMPT, MISFIT, "tried again after"),
    (RECORDS, "an item more", ATTEMPT, UNSENT, "more than one attempt"),
    (RECORDS, "an item less", f"{CLEANING}/wrong_keys/*", UNSENT, "all its names could"),
    (RECORDS, "another hash", f"{CLEANING}/tables_sha256", CLEANED, "other tables"),
    (RECORDS, "another number", f"{CLEANING}/fields_changed", CLEANED, "other counts"),
    (RECORDS, "a member more", ATTEMPT, CLEANED, "an attempt of another form"),
    (RECORDS, "a member more", CLEANING, CLEANED, "sanitised: another form"),
    (RECORDS, "null for a container", f"{CLEANING}/fields/*", CLEANED, "fields: another form"),
    (RECORDS, "a number for a text", f"{CLEANING}/wrong_keys/*", UNSENT, "keys: another form"),
    (RECORDS, "another hash", f"{CLEANING}/sent_sha256", MISFIT, "no text was changed"),
    (RECORDS, "a member more", f"{CALL}/request/input_data/upstream", CLEANED, "another input"),
    (RECORDS, "a truth for a number", f"{CLEANING}/fields/*/counts/bidi", CLEANED, "other counts"),
    (SMALL, "a number for null", f"{START}/sanitiser", TRAIL, "there, or not"),
    (PEOPLE, "a number for null", f"{START}/authors/pilot", TRAIL, "expected texts"),
    (SMALL, "a truth for a number", SEQS, TRAIL, "new episodes"),
    (SMALL, "a number for a text", f"{ISSUED}/issuer", ISSUED, "expected a name"),
    (PEOPLE, "another text", f"{SCORE}/step_id", TRAIL, "one that is open"),
    (PEOPLE, "a truth for a number", f"{REFUSED_SCORE}/score", TRAIL, "refused: another form"),
    (PEOPLE, "a number for a text", f"{REFUSED_SCORE}/score", TRAIL, "denies 'score-not-a-number'"),
    (PEOPLE, "another word", f"{FAILED_STEP}/reason", TRAIL, "for which it can fail"),
    (SMALL, "another text", f"{CLOSED}/sums/by", TRAIL, "isolation: another form"),
    (SMALL, "a number for null", f"{RECEIPT}/isolation", RECEIPT, "isolation: another form"),
    (SMALL, "a truth for a number", f"{INTERVAL}/high", AGGREGATE, "low ≤ high ≤ 1"),
    (SMALL, "a truth for a number", CONSTANT, BASELINES, "no mean of up to"),
    (RECORDS, "an item less", CALL, CLEANED, "hops and repeats: expected"),
    (RECORDS, "an item more", CALL, CLEANED, "hops and repeats: expected"),
    (RECORDS, "another text", f"{CALL}/version_source", CLEANED, "expected computed or claimed"),
    (RECORDS, "another word", f"{ATTEMPT}/response/status", CLEANED, "without error_detail"),
    (RECORDS, "another text", f"{ATTEMPT}/response/construct_version", MISFIT, "another version"),
    (RECORDS, "a text for null", f"{ATTEMPT}/stderr", UNSENT, "/stderr: expected"),
    (RECORDS, "another number", f"{CALL}/request/input_data/number", UNSENT, "sent_sha256:"),
    (RECORDS, "another hash", f"{CLEANING}/raw_sha256", CLEANED, "raw_sha256:"),
    (RECORDS, "another word", f"{CLEANING}/role_markers", CLEANED, "role_markers:"),
    (RECORDS, "an item less", f"{CLEANING}/raw_fields/*", CLEANED, "raw_fields:"),
    (PEOPLE, "a number for null", CLEANING, TRIED, "sanitised: expected b'null'"),
    (RECORDS, "another number", f"{CALL}/request/metadata/timeout_seconds", CLEANED, "metadata"),
    (RECORDS, "another text", f"{START}/sanitiser", TRAIL, "sanitiser_version:"),
    (PEOPLE, "a member more", SCORE, TRAIL, "human_score: another form"),
    (PEOPLE, "a text for a number", f"{REFUSED_SCORE}/score", TRAIL, "denies 'score-off-scale'"),
    (PEOPLE, "another text", f"{REFUSED_SCORE}/scorer", TRAIL, "denies 'scorer-is-author'"),
    (PEOPLE, "another text", f"{FAILED_STEP}/error_detail", TRAIL, "late/error_detail: expected"),
    (PEOPLE, "a member more", f"{TRAIL}/step_skipped/detail/result", TRAIL, "remark: one too many"),
    (SMALL, "a number for a truth", f"{CLOSED}/sums/files", TRAIL, "isolation: another form"),
    (SMALL, "a member more", f"{CLOSED}/sums", TRAIL, "isolation: another form"),
    (SMALL, "a member more", CLOSED, TRAIL, "isolation: expected"),
    (SMALL, "the other truth", f"{CLOSED}/sums/files", TRAIL, "caps: expected"),
    (SMALL, "the other truth", f"{CLOSED}/sums/processes", TRAIL, "caps: expected"),
    (SMALL, "the other truth", f"{CLOSED}/sums/network", TRAIL, "findings: expected"),
    (SMALL, "another text", f"{ISSUED}/isolation/by", ISSUED, "isolation/by: expected"),
]
# fmt: on
"""Of each rule that is written twice, a change that breaks it, and what the file says then."""


@pytest.fixture(scope="module")
def targets(bundles: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Targets:
    """Copies of the bundles, each with its mutants by kind, place and file."""
    found: Targets = {}
    for name, bundle in bundles.items():
        tried = target(bundle, tmp_path_factory.mktemp("target") / "bundle")
        by_place: defaultdict[tuple[str, str, str], list[Mutant]] = defaultdict(list)
        tested = {file for run, _, _, file, _ in RULES if run == name}
        for mutant in mutants({file: tried.files[file] for file in tested}):
            by_place[mutant.kind, mutant.place, mutant.file].append(mutant)
        found[name] = (tried, by_place)
    return found


@pytest.mark.parametrize(("run", "kind", "place", "file", "said"), RULES)
def test_it_has_the_rules_of_the_check(
    targets: Targets, run: str, kind: str, place: str, file: str, said: str
) -> None:
    tried, by_place = targets[run]
    found = (tried.problems(mutant) for mutant in by_place[kind, place, file])
    assert any(said in problem for problems in found for problem in problems)


def test_an_honest_bundle_that_is_made_anew_stays_consistent(bundle: Path, tmp_path: Path) -> None:
    files = load(bundle)
    folder = store(resealed(files, max(Effort)), tmp_path / "bundle")
    assert verify(folder, now=LATE).word == "consistent"


def test_the_file_has_every_name_once_and_needs_the_standard_library_alone() -> None:
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
    # Its one package is asked for signatures where it is there, else openssl is.
    assert imported - sys.stdlib_module_names == {"cryptography"}
    at_the_top = [node.module for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert "cryptography" not in str(at_the_top)
