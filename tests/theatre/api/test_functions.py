"""`from theatre import …`: rehearse, certify, check, validate, and `@scorer`, in this process."""

import asyncio
import hashlib
import importlib
import importlib.util
import json
import pickle
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
from click.testing import CliRunner

from tests.theatre.cli.doubler import EPISODES, write_module, write_theatre
from theatre import (
    Certificate,
    InvalidTemplateError,
    NotFoundError,
    Run,
    ScoringCase,
    TheatreError,
    UsageError,
    VerdictError,
    check,
    run,
    scorer,
    validate,
)
from theatre.api.callables import with_callable
from theatre.api.runs import go_on_or_commit
from theatre.api.workspace import Workspace
from theatre.cli import cli
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.models import ScorerKind
from theatre.files.trust_home import TRUST_HOME
from theatre.scorers import registered_scorers

EIGHT_RIGHT = "1.000 [0.676, 1.000], n 8"


def imported(path: Path, name: str) -> Callable[..., object]:
    """Import a function of a file, as a notebook or a test may have it."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., object] = getattr(module, name)
    return function


@dataclass(frozen=True)
class Place:
    """A template that names another construct, and elsewhere a module with a callable."""

    folder: Path

    @property
    def template(self) -> Path:
        return self.folder / "questions" / "template.json"

    @property
    def code(self) -> Path:
        return self.folder / "code" / "doubling.py"

    @property
    def double(self) -> Callable[..., object]:
        return imported(self.code, "double")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("api")
    (folder / "questions").mkdir()
    (folder / "code").mkdir()
    write_theatre(folder / "questions", adapter_type="http", endpoint="https://example.org/")
    write_module(folder / "code")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TRUST_HOME, str(folder / "trust"))
        patch.setenv("ECHELON_HOME", str(folder / "home"))
        yield Place(folder)


@pytest.fixture(scope="module")
def certified(place: Place) -> Run:
    return run(place.template, construct=place.double)


def test_a_callable_is_rehearsed_and_nothing_is_kept(place: Place, certified: Run) -> None:
    seen: list[tuple[int, int]] = []
    rehearsed = run(
        place.template,
        construct=place.double,
        store=place.folder / "none",
        rehearsal=True,
        on_progress=lambda progress: seen.append((progress.done, progress.total)),
    )
    assert rehearsed.outcome == "rehearsed"
    assert str(rehearsed.scores["right"]) == EIGHT_RIGHT
    assert rehearsed.scores["composite"].value == 1
    assert rehearsed.findings == certified.findings != ()
    assert (rehearsed.certificate, rehearsed.bundle, rehearsed.theatre_id) == (None, None, None)
    assert seen[-1] == (EPISODES, EPISODES)
    assert not (place.folder / "none").exists()
    assert_goes_to_another_process(rehearsed)
    third = [*rehearsed.episodes()][2]
    assert (third.input_data, third.answers, third.expected, third.scores, third.error) == (
        {"number": 3},
        {"doubler": {"result": 6}},
        {"double": 6},
        {"right": 1},
        None,
    )


def assert_goes_to_another_process(one: Run) -> None:
    """As what a function comes to that a pool of processes runs."""
    returned = pickle.loads(pickle.dumps(one))  # noqa: S301 - written here
    assert (returned.report, [*returned.episodes()]) == (one.report, [*one.episodes()])


def test_a_callable_is_certified_logged_and_checked(certified: Run) -> None:
    assert (certified.outcome, certified.tier) == ("certified", "UNVERIFIED")
    assert certified.bundle is not None
    assert certified.certificate == Certificate.read(certified.bundle)
    assert str(certified.certificate.scores["right"]) == EIGHT_RIGHT
    assert certified.certificate.document["version_source"] == "computed"
    assert [one.outcome for one in certified.episodes()] == ["scored"] * EPISODES
    assert_goes_to_another_process(certified)
    report = check(certified.bundle, require="logged")
    assert report.verdict == "valid, logged"
    template = parse_object((certified.bundle / "template.json").read_bytes())
    config = template["product_theatre_config"]
    assert isinstance(config, dict)
    assert (config["adapter_type"], config["adapter_endpoint"]) == ("python", "doubling:double")


def test_an_edit_of_the_module_is_another_construct(
    place: Place, certified: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    worse = tmp_path / "doubling.py"
    worse.write_text(place.code.read_text("utf-8").replace("2 *", "3 *"), "utf-8")
    edited = run(place.template, construct=imported(worse, "double"), store="own", concurrency=1)
    # Episodes are read when they are asked for.
    monkeypatch.chdir(place.folder)
    assert len([*edited.episodes()]) == EPISODES
    assert edited.certificate is not None
    assert certified.certificate is not None
    assert edited.certificate.construct_version != certified.certificate.construct_version
    assert edited.certificate.commitment_hash != certified.certificate.commitment_hash
    assert edited.scores["right"].value == 0


def test_a_committed_callable_is_run_by_its_id_from_anywhere(place: Place, tmp_path: Path) -> None:
    document, code = with_callable(parse_object(place.template.read_bytes()), place.double)
    workspace = replace(Workspace.from_environment(), home=tmp_path, code_folder=code)
    theatre_id = go_on_or_commit(document, place.template.parent, workspace, new=False)
    assert run(theatre_id, store=tmp_path).outcome == "certified"


def test_of_a_folder_that_was_moved_the_unfinished_theatre_is_named(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    document, code = with_callable(parse_object(place.template.read_bytes()), place.double)
    workspace = replace(Workspace.from_environment(), home=tmp_path / "home", code_folder=code)
    folder = Path(shutil.copytree(place.template.parent, tmp_path / "before"))
    unfinished = go_on_or_commit(document, folder, workspace, new=False)
    moved = folder.rename(tmp_path / "after")
    assert go_on_or_commit(document, moved, workspace, new=False) != unfinished
    assert f"the unfinished theatre {unfinished} began in {folder}: there it goes" in caplog.text


def test_a_run_needs_no_event_loop_of_its_own(place: Place) -> None:
    async def as_in_a_notebook() -> Run:
        return run(place.template, construct=place.double, rehearsal=True)

    assert asyncio.run(as_in_a_notebook()).outcome == "rehearsed"


def test_what_is_required_is_reached_or_raised(certified: Run, tmp_path: Path) -> None:
    assert certified.bundle is not None
    copy = tmp_path / "copy"
    shutil.copytree(certified.bundle, copy)
    shutil.rmtree(copy / "proofs")
    assert check(copy).verdict == "consistent"
    with pytest.raises(VerdictError, match="'valid' or 'valid, logged', got 'consistent'"):
        check(copy, require="valid")
    (copy / "scores" / "aggregate.json").write_bytes(b"{}\n")
    with pytest.raises(VerdictError, match="inventory: expected") as error:
        check(copy, require="logged")
    assert error.value.report.failed
    with pytest.raises(UsageError, match="expected valid or logged to be required, got 'Logged'"):
        check(copy, require=cast("Any", "Logged"))
    assert isinstance(error.value, TheatreError)


def test_the_commands_print_what_the_functions_return(place: Place, certified: Run) -> None:
    def printed(*arguments: object) -> JsonObject:
        shown = CliRunner().invoke(cli, [*map(str, arguments), "--json"])
        return parse_object(shown.stdout_bytes)

    assert certified.bundle is not None
    assert printed("check", certified.bundle) == check(certified.bundle).as_document()
    validated = printed("theatre", "validate", place.template)
    assert validated == validate(place.template).as_document()
    report = printed("theatre", "show", certified.theatre_id)
    assert {name: report[name] for name in certified.report} == certified.report


def test_all_findings_on_a_template_come_at_once(place: Place) -> None:
    document = json.loads(place.template.read_bytes())
    del document["criteria"]["criteria_ids"], document["scorer_pins"]["exact_match"]
    found = validate(document)
    assert not found.valid
    assert len(found.errors) > 1
    with pytest.raises(InvalidTemplateError) as error:
        run(document)
    assert error.value.violations == found.errors


@pytest.mark.parametrize(
    ("construct", "said"),
    [
        (lambda _: {}, "a function at the top of a module"),
        (json.JSONDecoder(), "a function at the top of a module"),
        (len, "a function at the top of a module"),
    ],
    ids=["a lambda", "an object", "a built-in"],
)
def test_a_callable_that_no_import_finds_again_is_refused(
    place: Place, construct: Callable[..., object], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        run(place.template, construct=construct, rehearsal=True)


def test_a_callable_declared_as_another_construct_is_refused(place: Place, tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text(place.code.read_text("utf-8").replace('id="doubler"', 'id="tripler"'), "utf-8")
    with pytest.raises(UsageError, match=r"expected the construct doubler, got .* tripler"):
        run(place.template, construct=imported(other, "double"), rehearsal=True)


def test_a_callable_does_not_stand_for_a_chain(place: Place) -> None:
    document = json.loads(place.template.read_bytes())
    document["version_pins"]["constructs"]["second"] = "c0ffee" + "1" * 58
    with pytest.raises((UsageError, InvalidTemplateError), match="second"):
        run(document, construct=place.double, rehearsal=True)


def test_what_is_not_there_is_not_found(tmp_path: Path) -> None:
    for missing in (lambda: run(tmp_path / "none.json"), lambda: validate(tmp_path / "none.json")):
        with pytest.raises(NotFoundError, match=r"none\.json"):
            missing()
    with pytest.raises(NotFoundError, match="expected a template file, got"):
        run("5d1f0b7e-0000-4000-8000-000000000000", rehearsal=True)
    with pytest.raises(UsageError, match="expected concurrency of 1 or more, got 0"):
        run(tmp_path / "none.json", concurrency=0)
    with pytest.raises(UsageError, match="trust"):
        check(tmp_path, policy=tmp_path / "policy")
    (tmp_path / "certificate.json").write_text('{"tier": "PROVEN"}', "utf-8")
    with pytest.raises(UsageError, match="expected a calibration certificate"):
        Certificate.read(tmp_path)


NEAR = '''
from theatre import scorer


@scorer(kind="exact")
def near(answer, expected):
    """Score by distance."""
    return max(0.0, 1 - abs(answer - expected) / 10)
'''


def module(folder: Path, text: str, name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (folder / f"{name}.py").write_text(text, "utf-8")
    monkeypatch.syspath_prepend(folder)
    importlib.invalidate_caches()
    return importlib.import_module(name)


def test_an_entry_point_registers_it_under_the_hash_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = module(tmp_path, NEAR, "near_scorer", monkeypatch).near
    entry = EntryPoint("near", "near_scorer:near", "echelon.scorers")
    near = registered_scorers([entry])["near"]
    assert [near] == [declared]
    assert near.pin == f"near@{hashlib.sha256(NEAR.encode()).hexdigest()[:12]}"
    assert near.kind is ScorerKind.EXACT
    case = ScoringCase(input_data={}, expected=9, answer=7, params={}, hops={})
    assert (near.score(case), declared(7, 9)) == (0.8, 0.8)


def test_an_edit_of_the_file_is_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = module(tmp_path, NEAR, "near_first", monkeypatch)
    second = module(tmp_path, NEAR.replace("/ 10", "/ 100"), "near_second", monkeypatch)
    assert first.near.version != second.near.version


def test_what_no_one_could_compute_again_is_refused() -> None:
    with pytest.raises(ValueError, match="judged"):
        scorer(kind="judged")(lambda _, __: 1.0)  # type: ignore[arg-type]
    names: dict[str, object] = {}
    exec("def typed(answer, expected): return 1.0", names)  # noqa: S102 - as in a shell
    with pytest.raises(ValueError, match="from a file, or a version"):
        scorer(kind="exact")(names["typed"])  # type: ignore[arg-type]
