"""CONTRIBUTING, the workflow and the page of commands name what there is."""

import re
from pathlib import Path

import yaml

from backend.cli import COMMANDS as SERVICE_COMMANDS
from theatre.cli import COMMANDS

CHECKOUT = Path(__file__).parents[2]
CONTRIBUTING = (CHECKOUT / "CONTRIBUTING.md").read_text(encoding="utf-8")
WORKFLOW = CHECKOUT / ".github" / "workflows" / "ci.yml"
PATH = re.compile(r"\b(?:theatre|backend|tests|docs|fixtures)/[\w./]+\w")
TO_BE_MADE = re.compile(r"NAME|SUBJECT")


def test_every_file_that_contributing_names_is_there() -> None:
    paths = {path for path in PATH.findall(CONTRIBUTING) if not TO_BE_MADE.search(path)}
    assert len(paths) >= 20
    assert [path for path in sorted(paths) if not (CHECKOUT / path).exists()] == []


def test_every_name_that_contributing_gives_stands_in_a_file_of_its_row() -> None:
    seen = 0
    for row in (line for line in CONTRIBUTING.splitlines() if line.startswith("| `")):
        files = [CHECKOUT / path for path in PATH.findall(row) if not TO_BE_MADE.search(path)]
        modules = [two for one in files for two in (one.glob("*.py") if one.is_dir() else [one])]
        text = "".join(one.read_text(encoding="utf-8") for one in modules)
        names = [one.rpartition(".")[2] for one in re.findall(r"`([A-Z_a-z.]+)`", row)]
        if text:
            assert [one for one in names if one != "None" and one not in text] == [], row
            seen += len(names)
    assert seen >= 15


def test_every_target_of_make_is_there() -> None:
    makefile = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
    rules = re.findall(r"^([\w -]+):", makefile, re.MULTILINE)
    made = re.findall(r"^\| `make ([a-z-]+)`|, `(soak-[a-z]+)`", CONTRIBUTING, re.MULTILINE)
    wanted = {name for pair in made for name in pair if name}
    assert {"check", "test", "demo", "soak-chaos", "soak-data"} <= wanted
    assert wanted <= {name for rule in rules for name in rule.split()}


def test_the_workflow_runs_tests_that_there_are() -> None:
    jobs = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    paths = [path for command in commands for path in PATH.findall(command)]
    assert len(paths) == 2
    assert all((CHECKOUT / path).is_file() for path in paths)
    matrix = jobs["reproduce"]["strategy"]["matrix"]
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert [one.split("-")[0] for one in matrix["os"]] == ["ubuntu", "ubuntu", "macos"]


def test_the_page_of_commands_has_each_command() -> None:
    page = (CHECKOUT / "docs" / "commands.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^echelon ([a-z]+)", page, re.MULTILINE))
    assert shown == COMMANDS.keys() | SERVICE_COMMANDS.keys()
