"""`echelon init`: by flags and by questions, for each kind of construct."""

import csv
import io
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from theatre.api.draft_files import pin_file
from theatre.api.template_files import read_written
from theatre.api.validation import validate_written
from theatre.api.workspace import Workspace
from theatre.cli.init_command import init, recipes
from theatre.engine.canonical_json import JsonObject
from theatre.engine.schema_registry import resource_root
from theatre.engine.templates import theatre_id_of

ROWS = "\n".join(f"word {number},{'odd' if number % 2 else 'even'}" for number in range(100))
URL = "http://127.0.0.1:9/v1"


class Terminal(io.BytesIO):
    """What a person types."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.csv").write_text(f"text,parity\n{ROWS}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ECHELON_OUTBOUND_ALLOW", "127.0.0.0/8")
    return tmp_path


def start(*options: str, typed: str | None = None) -> Result:
    asked = None if typed is None else Terminal(typed.encode())
    return CliRunner().invoke(init, ["Word parity 2", *options], input=asked)


def pinned(project: Path) -> Any:  # noqa: ANN401  # any JSON
    """Return the template of a new project, which breaks no rule."""
    path = project / "echelon.yaml"
    return pin_file(path, Workspace.from_environment(), read_written(path).document)


def faults(project: Path) -> list[tuple[str, str]]:
    """Return rule and words of everything that `validate` finds wrong with a new project."""
    path = project / "echelon.yaml"
    found = validate_written(
        read_written(path), path, Workspace.from_environment(), rehearsal=False
    )
    return [(one.rule, one.detail) for one in found.errors]


def construct_of(template: Any) -> tuple[Any, ...]:  # noqa: ANN401  # any JSON
    config = template["product_theatre_config"]
    names = ("adapter_type", "adapter_endpoint", "adapter_settings")
    return tuple(config.get(name) for name in names)


SAID: JsonObject = {"from": "text", "field": "parity"}
PROGRAM = {"prompt": "{{/text}}", "answer": SAID}
MODEL = {
    "model": "small-1",
    "prompt": "Give the parity of this input. Answer with nothing else.\n\n{{/text}}",
    "parameters": {"temperature": 0},
    "answer": SAID,
}
SERVICE = ("--construct", "http", "--url", "http://127.0.0.1:9/", "--id", "own")
HTTP = (*SERVICE, "--version", "1234567")
KINDS: dict[str, tuple[tuple[str, ...], tuple[Any, ...]]] = {
    "python": ((), ("python", "solution:answer", None)),
    "a function": (("--construct", "own:answer"), ("python", "own:answer", None)),
    "node": (("--construct", "node"), ("local", '["node", "solution.mjs"]', None)),
    "http": (HTTP, ("http", "http://127.0.0.1:9/", None)),
    "command": (
        ("--construct", "command", "--command", "sh answer.sh"),
        ("command", '["sh", "answer.sh"]', PROGRAM),
    ),
    "openai": (
        ("--construct", "openai", "--url", URL, "--model", "small-1"),
        ("openai", URL, MODEL),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_construct_can_be_committed_at_once(folder: Path, kind: str) -> None:
    options, construct = KINDS[kind]
    started = start("--yes", "--data", "mine.csv", "--answer", "parity", *options)
    assert started.exit_code == 0, started.output
    project = folder / "Word parity 2"
    (project / "answer.sh").write_text("echo even\n", encoding="utf-8")
    (project / "own.py").write_text("def answer(asked):\n    return {}\n", encoding="utf-8")
    template = pinned(project)
    assert construct_of(template) == construct
    if kind == "http":
        # Its answers say it: the host's name, or 127, would be refused in each of them.
        assert template["version_pins"]["constructs"] == {"own": "1234567"}
    assert template["theatre_id"].startswith("product_word_parity_")
    assert template["criteria"]["criteria_ids"] == ["right_parity"]
    assert len((project / "ground_truth.jsonl").read_bytes().splitlines()) == 100
    assert len((project / "echelon.yaml").read_text(encoding="utf-8").splitlines()) <= 15


HTTP_TYPED = ("http", "http://127.0.0.1:9/", "own", "v1", "1234567")
PROGRAM_TYPED = ("command", "sh answer.sh")
ANSWERS = {
    "own:answer": ("classification", "mine.csv", "parity", "own:answer"),
    "command": ("classification", "mine.csv", "parity", *PROGRAM_TYPED),
    "mistakes": ("so", "", "no.csv", " 'mine.csv'", "par", "parity", "comand", *PROGRAM_TYPED),
    "http": ("classification", "mine.csv", "parity", *HTTP_TYPED),
    "openai": ("classification", "mine.csv", "parity", "openai", URL, "small-1"),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_on_a_terminal_it_asks_for_what_is_not_said(folder: Path, kind: str) -> None:
    asked = start(typed="\n".join([*ANSWERS[kind], ""]))
    assert asked.exit_code == 0, asked.output
    written = (folder / "Word parity 2" / "echelon.yaml").read_bytes()
    names = {"own:answer": "a function", "mistakes": "command"}
    options, _ = KINDS[names.get(kind, kind)]
    by_flags = start("--yes", "--force", "--data", "mine.csv", "--answer", "parity", *options)
    assert by_flags.exit_code == 0, by_flags.output
    assert (folder / "Word parity 2" / "echelon.yaml").read_bytes() == written


def test_a_folder_of_files_is_asked_file_by_file(folder: Path) -> None:
    for label in ("even", "odd"):
        (folder / "texts" / label).mkdir(parents=True)
        (folder / "texts" / label / "one.txt").write_text(f"{label} words", encoding="utf-8")
    started = start("--yes", "--data", "texts", *KINDS["command"][0])
    assert started.exit_code == 0, started.output
    project = folder / "Word parity 2"
    (project / "answer.sh").write_text("echo even\n", encoding="utf-8")
    assert construct_of(pinned(project))[2]["answer"] == {"from": "text", "field": "label"}
    rows = (project / "ground_truth.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(rows[0]) == {
        "episode_id": "even/one.txt",
        "input_data": {"text": "even words"},
        "expected_output": {"label": "even"},
    }


COLUMNS = ("no", "null", "1", "#n", "two\nlines", "@ANSWER@", '"q"', "x/y", "parity of words", "プ")


def test_any_name_of_a_column_is_that_name_in_the_draft(folder: Path) -> None:
    for name in COLUMNS:
        with (folder / "mine.csv").open("w", encoding="utf-8") as table:
            csv.writer(table).writerows([("text", name), ("a", "x"), ("b", "y")])
        said = ("--yes", "--force", "--data", "mine.csv", "--answer", name)
        assert start(*said).exit_code == 0, name
        read = pinned(folder / "Word parity 2")["scoring"]["criteria_scorers"]
        assert [one["params"]["field"] for one in read.values()] == [name]


@pytest.mark.parametrize("name", ["Label v1.2", "gold:x"])
def test_a_column_that_a_path_would_part_is_refused(folder: Path, name: str) -> None:
    (folder / "mine.csv").write_text(f"text,{name}\na,x\n", encoding="utf-8")
    refused = start("--yes", "--data", "mine.csv", "--answer", name)
    assert f"got {name!r}: give that column" in str(refused.exception)


def test_a_project_keeps_its_readme_and_its_coins_are_not_committed(folder: Path) -> None:
    kept = {"README.md": "# mine\n", ".gitignore": "*.pyc"}
    for name, text in kept.items():
        (folder / name).write_text(text, encoding="utf-8")
    said = (".", "--yes", "--data", "mine.csv", "--answer", "parity")
    for more in ((), ("--force",)):
        assert CliRunner().invoke(init, [*said, *more]).exit_code == 0
        assert (folder / ".gitignore").read_text(encoding="utf-8") == "*.pyc\n.echelon/\n"
        is_kept = (folder / "README.md").read_text(encoding="utf-8") == kept["README.md"]
        assert is_kept is not bool(more)
    refused = CliRunner().invoke(init, [*said])
    assert "got ground_truth.jsonl, solution.py, echelon.yaml, .github/w" in str(refused.exception)


WRITTEN = {
    ("classification", "python"): "null",
    ("classification", "node"): "null",
    ("chain_of_two", "python"): "null_calculator",
}


@pytest.mark.parametrize(("recipe", "kind"), WRITTEN)
@pytest.mark.usefixtures("folder")
def test_what_it_writes_is_no_version_of_the_construct_in_another_folder(
    recipe: str, kind: str
) -> None:
    # Else the log reads "run 1 of 1; 2 runs of 2 versions" where each folder has one.
    ids = []
    for name in (Path("null"), Path("n" * 250)):
        said = [str(name), "--yes", "--recipe", recipe, "--construct", kind]
        assert CliRunner().invoke(init, said).exit_code == 0
        assert faults(name) == []
        ids.append(pinned(name)["product_theatre_config"]["construct_under_test"])
    assert ids[0] == WRITTEN[recipe, kind]
    assert ids[1].startswith("n" * 200 + "_")


def test_each_recipe_can_be_of_another_construct(folder: Path) -> None:
    for recipe in recipes():
        started = start("--yes", "--force", "--recipe", recipe, "--construct", "node")
        assert started.exit_code == 0, recipe
        assert construct_of(pinned(folder / "Word parity 2"))[1] == '["node", "solution.mjs"]'


ITEMS = [
    {"text": f"word {n}", "record": {"title": f"t{n}"}, "one": "a", "ids": [f"d{n}"], "result": n}
    for n in range(3)
]
OWN_DATA = {
    "classification": (("one",), ["exact_match"]),
    "chain_of_two": (("one",), ["exact_match"]),
    "extraction": (("one",), ["field_match"]),
    "retrieval": (("ids",), ["set_f1"]),
    "agent_with_tools": (("result", "tools"), ["exact_match", "exact_match"]),
    "code_change": (("one", "ids"), ["field_match"]),
    "judged_text": (("one",), ["llm_judge"]),
}


@pytest.mark.parametrize("recipe", OWN_DATA)
def test_each_recipe_measures_own_rows(folder: Path, recipe: str) -> None:
    names, scorers = OWN_DATA[recipe]
    rows = [json.dumps({**one, "tools": ["price"]}) for one in ITEMS]
    (folder / "mine.jsonl").write_text("\n".join(rows), encoding="utf-8")
    answers = [word for name in names for word in ("--answer", name)]
    started = start("--yes", "--recipe", recipe, "--data", "mine.jsonl", *answers)
    assert started.exit_code == 0, started.output
    assert ("edit        calculator.py, reader.py: " in started.output) == ("chain" in recipe)
    assert faults(folder / "Word parity 2") == []
    template = pinned(folder / "Word parity 2")["scoring"]["criteria_scorers"]
    assert [one["scorer"] for one in template.values()] == scorers


EDITS = {
    "a text for a list": (
        ("exact_match", "set_f1"),
        ("expectation-unmeasurable", "that set_f1 can compare"),
    ),
    "no regex": (
        ('answer: {"from": "text", "field": "parity"}', "answer: {from: regex, field: parity}"),
        ("adapter-settings", "expected member regex with from regex, got none"),
    ),
    "an address of this machine": (
        ("", ""),
        ("endpoint-allowed", "export ECHELON_OUTBOUND_ALLOW=127.0.0.1:9"),
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_would_measure_or_reach_nothing_is_said_before_a_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, edit: str
) -> None:
    (before, after), (rule, words) = EDITS[edit]
    if edit == "an address of this machine":
        monkeypatch.delenv("ECHELON_OUTBOUND_ALLOW")
    start("--yes", "--data", "mine.csv", "--answer", "parity", *KINDS["openai"][0])
    draft = folder / "Word parity 2" / "echelon.yaml"
    text = draft.read_text(encoding="utf-8")
    assert before in text
    draft.write_text(text.replace(before, after), encoding="utf-8")
    ((found, said),) = faults(draft.parent)
    assert (found, words in said) == (rule, True), said


@pytest.mark.parametrize("recipe", ["retrieval", "judged_text"])
def test_rows_of_which_a_recipe_can_make_nothing_are_refused(folder: Path, recipe: str) -> None:
    refused = start("--yes", "--recipe", recipe, "--data", "mine.csv", "--answer", "parity")
    assert (refused.exit_code, "JSON Lines" in refused.output) == (2, True), refused.output
    assert not (folder / "Word parity 2").exists()


NAMES = ("p", "p1", "p2", "P", "p-1", "p_1", "1", "été", "ete", "プ", "a b", "a_b", "", "\udcff")


def test_two_names_never_have_the_same_theatre_id() -> None:
    ids = {name: theatre_id_of(name) for name in NAMES}
    assert len({*ids.values()}) == len(NAMES)
    assert (ids["p"], ids["a_b"]) == ("product_p_v1", "product_a_b_v1")
    schema = resource_root() / "docs" / "schemas" / "echelon_theatre_schema_v2_2.json"
    pattern = json.loads(schema.read_bytes())["properties"]["theatre_id"]["pattern"]
    assert all(re.search(pattern, one) for one in ids.values())


def test_two_folders_and_two_constructs_without_an_id_are_two_theatres(folder: Path) -> None:
    own = ("--yes", "--construct", "own:answer")
    for name in ("p1", "p2"):
        assert CliRunner().invoke(init, [name, *own]).exit_code == 0
        (folder / name / "own.py").write_text("def answer(asked):\n    return {}\n", "utf-8")
        path = folder / name / "echelon.yaml"
        assert f"id: {theatre_id_of(name)}\n" in path.read_text("utf-8")
        path.write_text(path.read_text("utf-8").replace(f"id: {theatre_id_of(name)}\n", ""))
        (folder / name / "own.py").rename(folder / name / f"{name}.py")
        path.write_text(path.read_text("utf-8").replace("own:", f"{name}:"))
    ids = [pinned(folder / name)["theatre_id"] for name in ("p1", "p2")]
    assert ids == [theatre_id_of("p1"), theatre_id_of("p2")]


@pytest.mark.usefixtures("folder")
def test_what_a_kind_needs_is_named() -> None:
    refused = start("--yes", "--construct", "openai", "--url", URL)
    assert refused.exit_code == 2
    assert "expected --model with --construct openai, got none" in refused.output
    for said, names in (
        (SERVICE[:-2], "expected --id with --construct http, got none: its construct_id, as"),
        (SERVICE, "expected --version with --construct http, got none: the version that its answ"),
        (
            (*HTTP[:-1], "v1.2"),
            "expected --version as 7 to 64 hex digits in lower case, got 'v1.2'",
        ),
        ((*HTTP[:-1], "ABCDEF0"), "got 'ABCDEF0'"),
        (("--construct", "command", "--command", "sh 'a"), "as a shell reads it, got"),
    ):
        refused = start("--yes", *said)
        assert refused.exit_code == 2
        assert names in refused.output
    assert not Path("Word parity 2").exists()
    assert "did you mean command?" in start("--yes", "--construct", "comand").output


def test_the_readme_checks_the_newest_of_several_runs(folder: Path) -> None:
    assert start("--yes").exit_code == 0
    project = folder / "Word parity 2"
    for at, run in enumerate(("b", "a", "c")):
        bundle = project / ".echelon" / "theatres" / run / f"evidence_bundle_{run}"
        bundle.mkdir(parents=True)
        os.utime(bundle, (at, at))
    (said,) = re.findall(r'(?m)^echelon check (".*")', (project / "README.md").read_text("utf-8"))
    shell = ["sh", "-c", f"printf '%s|' {said}"]
    found = subprocess.run(shell, cwd=project, capture_output=True, text=True, check=True)
    assert found.stdout == ".echelon/theatres/c/evidence_bundle_c|"


def test_there_is_one_job_for_ci(folder: Path) -> None:
    assert start("--yes").exit_code == 0
    job = (folder / "Word parity 2" / ".github" / "workflows" / "echelon.yml").read_text("utf-8")
    docs = resource_root() / "docs"
    assert job == (docs / "echelon-ci.yml").read_text("utf-8")
    assert f"```yaml\n{job}```" in (docs / "ci.md").read_text("utf-8")
    assert yaml.safe_load(job)["jobs"].keys() == {"echelon"}
