"""What beginners do wrong: each ends in one message that names the cause and what to do."""

import json
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.theatre.cli.test_plain_theatres import MISTAKES as ADAPTERS_MISTAKES
from tests.theatre.forked_echelon import forked

CSV = "review,stars\nawful,1\nfine,3\ngreat,5\n"
DRAFT = "construct: solution:answer\ndata: ground_truth.jsonl\nanswer: stars\n"
SOLUTION = "def answer(input_data):\n    return {'stars': 3}\n"


def project(folder: Path, **files: str) -> None:
    """Write a small project by hand; `files` go over its files, `__` stands for a dot."""
    row = {"input_data": {"review": "fine"}, "expected_output": {"stars": 3}}
    lines = [json.dumps({"episode_id": f"e{number}", **row}) for number in range(2)]
    texts = {
        "echelon.yaml": DRAFT,
        "ground_truth.jsonl": "\n".join(lines),
        "solution.py": SOLUTION,
        "mine.csv": CSV,
    }
    for name, text in (texts | {k.replace("__", "."): v for k, v in files.items()}).items():
        (folder / name).write_text(text, encoding="utf-8")


INIT = ("init", "new", "--yes", "--data")
MISTAKES: dict[str, tuple[dict[str, str], tuple[str, ...], int, tuple[str, ...]]] = {
    "no draft": ({}, ("run", "nope"), 3, ("nope",)),
    "init: wrong path": ({}, (*INIT, "nope.csv"), 3, ("nope.csv", "--data")),
    "init: wrong field": (
        {},
        (*INIT, "mine.csv", "--answer", "star"),
        5,
        ("did you mean stars?", "review, stars"),
    ),
    "init: no field named": ({}, (*INIT, "mine.csv"), 5, ("--answer", "review, stars")),
    "init: empty": (
        {"mine__csv": "review,stars\n"},
        (*INIT, "mine.csv", "--answer", "stars"),
        5,
        ("expected rows in mine.csv, got none",),
    ),
    "init: a text for an answer": (
        {"a__jsonl": '{"episode_id": "a", "input_data": {}, "expected_output": "yes"}\n'},
        (*INIT, "a.jsonl"),
        5,
        ("expected_output as an object", "row 1"),
    ),
    "init: an id twice": (
        {"mine__csv": "id,a,label\n1,x,y\n1,z,y\n"},
        (*INIT, "mine.csv"),
        5,
        ("each id once", "got 1"),
    ),
    "init: no answer": (
        {"mine__csv": "a,label\nx,y\nz,\n"},
        (*INIT, "mine.csv"),
        5,
        ("row 2", "fill it in"),
    ),
    "init: files are there": ({}, ("init", "--yes"), 5, ("echelon.yaml", "--force")),
    "init: wrong recipe": (
        {},
        ("init", "new", "--yes", "--recipe", "retrival"),
        2,
        ("did you mean retrieval?",),
    ),
    "wrong path": (
        {"echelon__yaml": DRAFT.replace("ground", "gruond")},
        ("run",),
        5,
        ("gruond_truth.jsonl", "echelon validate"),
    ),
    "wrong key": (
        {"echelon__yaml": DRAFT.replace("data", "dta")},
        ("pin",),
        5,
        ("did you mean data?",),
    ),
    "wrong field": (
        {"echelon__yaml": DRAFT.replace("stars", "star")},
        ("pin",),
        5,
        ("did you mean stars?",),
    ),
    "empty data": ({"ground_truth__jsonl": ""}, ("run",), 5, ("expected episodes", "got none")),
    "an id twice": (
        {
            "ground_truth__jsonl": '{"episode_id": "a", "input_data": {}}\n'
            '{"episode_id": "a", "input_data": {}}\n'
        },
        ("run",),
        5,
        ("line 2", "'a' again"),
    ),
    "numbers as texts": (
        {
            "echelon__yaml": DRAFT + "measure: numeric_tolerance\n",
            "ground_truth__jsonl": '{"episode_id": "a", "input_data": {}, '
            '"expected_output": {"stars": "3"}}\n',
        },
        ("run",),
        5,
        ("expected a number to compare", "without quotation marks"),
    ),
    "an import that crashes": (
        {"solution__py": f"import nope_nope\n{SOLUTION}"},
        ("run",),
        5,
        ("nope_nope", "install it"),
    ),
    "no Python": ({"solution__py": "def answer(x) return 1\n"}, ("run",), 5, ("line 1",)),
    "wrong function": (
        {"solution__py": SOLUTION.replace("answer", "anser")},
        ("run",),
        5,
        ("expected a function answer", "did you mean anser?"),
    ),
    "no YAML": ({"echelon__yaml": "construct: [a\n"}, ("run",), 5, ("expected YAML", "line 2")),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_ends_in_one_message_with_cause_and_way_out(tmp_path: Path, mistake: str) -> None:
    files, command, code, said = MISTAKES[mistake]
    project(tmp_path, **files)
    answer = forked(*command, home=tmp_path / "home", cwd=tmp_path)
    assert answer.code == code, answer
    assert answer.stderr.startswith("error (")
    assert answer.stderr.count("error (") == 1
    assert "Traceback" not in answer.stderr
    for words in said:
        assert words in answer.stderr
    assert not (tmp_path / "home").exists()


HIDDEN = "def load():\n    import nope_nope\n\nload()\n"
"""A mistake that no text shows: the import fails where constructs run."""


def test_an_import_that_crashes_there_ends_the_run_before_anything_is_asked(tmp_path: Path) -> None:
    project(tmp_path, solution__py=f"{HIDDEN}{SOLUTION}")
    home = tmp_path / "home"
    refused = forked("run", home=home, cwd=tmp_path)
    assert refused.code == 8, refused
    assert refused.stderr.count("error (") == 1
    for words in ("construct-unreachable", "No module named 'nope_nope'", "run it again"):
        assert words in refused.stderr
    # Nothing was asked, and nothing is in the log that would have to be closed.
    assert "logged" not in refused.stderr
    assert not [*home.rglob("episode_*")]
    (tmp_path / "solution.py").write_text(SOLUTION, encoding="utf-8")
    ended = forked("run", "--json", home=home, cwd=tmp_path)
    report = json.loads(ended.stdout)
    assert (ended.code, report["outcome"], report["scores"]) == (0, "certified", {"right_stars": 1})


PROGRAMS: dict[str, tuple[str, str, str]] = {
    "node: no JavaScript": ("solution.mjs", "function (", "SyntaxError"),
    "node: no such module": ("solution.mjs", "import 'nope-nope'", "nope-nope"),
    "python: no such module": ("main.py", "import nope_nope", "No module named 'nope_nope'"),
    "sh: no shell": ("solution.sh", "if then", "unexpected"),
}


@pytest.mark.parametrize("mistake", PROGRAMS)
def test_a_program_that_ends_before_it_is_asked_ends_the_run_before_the_first_call(
    tmp_path: Path, mistake: str
) -> None:
    name, text, said = PROGRAMS[mistake]
    program = {"node": "node", "python": "{python}", "sh": "sh"}[mistake.partition(":")[0]]
    if program != "{python}" and shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    argv = json.dumps([program, name])
    project(tmp_path, echelon__yaml=DRAFT.replace("solution:answer", argv))
    (tmp_path / name).write_text(f"{text}\n", encoding="utf-8")
    home = tmp_path / "home"
    refused = forked("run", home=home, cwd=tmp_path)
    assert refused.code == 8, refused
    assert "error (construct-unreachable): construct " in refused.stderr
    for words in ("waits for questions on stdin, got: exit code", said, "nothing was asked yet"):
        assert words in refused.stderr
    assert "logged" not in refused.stderr
    assert not [*home.rglob("episode_*")]


def test_a_port_that_is_taken_is_named_with_the_way_out(tmp_path: Path) -> None:
    project(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = ("construct", "serve", "solution:answer", "--port", port)
        refused = forked(*command, home=tmp_path / "home", cwd=tmp_path)
    assert refused.code == 1
    assert refused.stderr.startswith("error (address-unavailable): ")
    for words in (f"port {port}", "--port 0"):
        assert words in refused.stderr


def test_the_ten_mistakes_are_in_the_docs() -> None:
    page = (Path(__file__).parents[3] / "docs" / "drafts.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d+ \| ([^|]+) \|", page, re.MULTILINE)
    assert rows == [
        *("wrong path", "wrong field", "empty data", "numbers as texts", "an id twice"),
        *("an import that crashes", "port taken", "no key", "wrong key", "no network"),
    ]
    tested = {*MISTAKES, *ADAPTERS_MISTAKES, "port taken"}
    assert tested.issuperset(rows)


def test_a_pinned_template_that_is_outdated_fails_its_check_by_name(tmp_path: Path) -> None:
    project(tmp_path)

    def pin(*options: str) -> tuple[int, str]:
        answer = forked("pin", *options, home=tmp_path / "home", cwd=tmp_path)
        return answer.code, answer.stderr

    assert pin("--check")[0] == 3
    assert pin()[0] == 0
    assert pin("--check") == (0, "")
    edits: dict[str, Callable[[str], str]] = {
        "solution.py": lambda text: f"{text}# more\n",
        "ground_truth.jsonl": lambda text: f"{text}\n",
        "echelon.yaml": lambda text: f"{text}name: other\n",
    }
    said = {"solution.py": "the construct solution", "ground_truth.jsonl": "the data ground_truth"}
    for name, edit in edits.items():
        before = (tmp_path / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(edit(before), encoding="utf-8")
        code, stderr = pin("--check")
        assert code == 10
        assert said.get(name, "/display_name") in stderr
        assert "echelon pin echelon.yaml" in stderr
        (tmp_path / name).write_text(before, encoding="utf-8")
    assert pin("--check") == (0, "")


def test_a_table_of_ones_own_is_certified_by_two_commands(tmp_path: Path) -> None:
    rows = "\n".join(f"text {number},{number % 3}" for number in range(100))
    (tmp_path / "mine.csv").write_text(f"review,stars\n{rows}\n", encoding="utf-8")
    started = forked(
        *(*INIT, "mine.csv", "--answer", "stars"), home=tmp_path / "home", cwd=tmp_path
    )
    assert started.code == 0, started
    ended = forked("run", "--json", home=tmp_path / "home", cwd=tmp_path / "new")
    report = json.loads(ended.stdout)
    assert (report["outcome"], report["scores"]) == ("certified", {"right_stars": 0.34})
    ids = {
        json.loads(line)["episode_id"]
        for line in (tmp_path / "new" / "ground_truth.jsonl").read_text().splitlines()
    }
    # The same rows in another order have the same ids.
    (tmp_path / "mine.csv").write_text(
        "review,stars\n" + "\n".join(reversed(rows.splitlines())), encoding="utf-8"
    )
    forked(*(*INIT, "mine.csv", "--answer", "stars", "--force"), home=tmp_path, cwd=tmp_path)
    again = (tmp_path / "new" / "ground_truth.jsonl").read_text().splitlines()
    assert {json.loads(line)["episode_id"] for line in again} == ids


def test_a_rehearsal_names_a_text_where_a_number_is_expected(tmp_path: Path) -> None:
    project(tmp_path, solution__py=SOLUTION.replace("3", "'3'"))
    answer = forked("run", "--rehearsal", home=tmp_path / "home", cwd=tmp_path)
    assert answer.code == 0, answer
    said = "note: right_stars reads '3' where 3 is expected: a text never equals a number"
    assert said in answer.stdout.splitlines()
