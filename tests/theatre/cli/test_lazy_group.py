"""Commands are imported when they are called, not when they are listed."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from backend.cli import COMMANDS as OF_THE_SERVICE
from tests.theatre.cli.doubler import write_module, write_theatre
from tests.theatre.echelon_process import CARTOGRAPH, REPOSITORY, echelon, environment
from theatre.cli import COMMANDS, LazyGroup, cli, theatre_group

OTHERS = {
    "broken": "does not load: ModuleNotFoundError",
    "greet": "Say hello.",
    **{name: line for name, (_, line) in OF_THE_SERVICE.items()},
}
HTTP_CLIENT = ("httptools", "yarl")
HEAVY = (
    "numpy",
    "pydantic",
    "jsonschema",
    "referencing",
    "yaml",
    "rfc8785",
    "asyncio",
    *HTTP_CLIENT,
    "fastapi",
    "sqlalchemy",
    "uvicorn",
)

IMPORTED = """
import gc, json, os, sys
from theatre.cli import main
sys.argv = ["echelon", *sys.argv[1:]]
try:
    main()
except SystemExit as ending:
    # Neither the end of the process nor numpy costs a command what it has no use for.
    assert gc.get_freeze_count() > 0 and "OPENBLAS_NUM_THREADS" in os.environ
    print(json.dumps([ending.code, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def imported_by(tmp_path: Path, *arguments: str) -> tuple[int, set[str]]:
    ended = subprocess.run(
        [sys.executable, "-c", IMPORTED, *arguments],
        env=environment(tmp_path),
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    code, modules = json.loads(ended.stdout.splitlines()[-1])
    return code, set(modules)


INTERRUPTED = """
import os, signal, sys
# What a script starts in the background ignores it, and what that starts does.
signal.signal(signal.SIGINT, signal.default_int_handler)
class Interrupt:
    def find_spec(name, path=None, target=None):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt)
from theatre.program import main
main()
"""


def test_ctrl_c_while_the_program_loads_is_no_traceback() -> None:
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, b"")


@pytest.mark.parametrize(
    "arguments", [["--help"], [], ["nonsense"], ["theatre", "--help"], ["check", "--help"]]
)
def test_help_imports_nothing_heavy(tmp_path: Path, arguments: list[str]) -> None:
    code, modules = imported_by(tmp_path, *arguments)
    assert code == (0 if "--help" in arguments else 2)
    assert "click" in modules
    assert modules.isdisjoint(HEAVY)


def test_the_gate_imports_only_what_it_needs(tmp_path: Path) -> None:
    expertise = REPOSITORY / "fixtures" / "constructs" / "cartograph" / "expertise.yaml"
    code, modules = imported_by(tmp_path, "gate", str(expertise))
    assert code == 0
    assert "yaml" in modules
    assert modules.isdisjoint({"pydantic", "jsonschema"})


def test_a_hash_imports_nothing_that_runs_a_theatre(tmp_path: Path) -> None:
    code, modules = imported_by(tmp_path, "theatre", "hash", str(CARTOGRAPH))
    assert code == 0
    assert modules.isdisjoint({"asyncio", "yaml", *HTTP_CLIENT})


@pytest.mark.parametrize("group", [cli, theatre_group], ids=["echelon", "theatre"])
def test_every_command_that_is_listed_is_there_and_has_its_line(group: LazyGroup) -> None:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert isinstance(command, click.Command)
        assert command.name == name
    lines = group.get_help(context).partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in lines if len(line.split()) > 1] == group.list_commands(
        context
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["chekc"], "of echelon, got 'chekc': did you mean check?; `echelon --help` lists them"),
        (["theatre", "x"], "of echelon theatre, got 'x'; `echelon theatre --help` lists them"),
    ],
)
def test_a_misspelt_command_is_answered_with_the_nearest(words: list[str], said: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        cli.main(words, prog_name="echelon", standalone_mode=False)
    assert refused.value.format_message() == f"expected a command {said}"


def test_a_run_of_a_local_program_imports_no_http_client(tmp_path: Path) -> None:
    version = write_module(tmp_path)
    template = write_theatre(
        tmp_path, adapter_type="python", endpoint="doubling:double", version=version
    )
    code, modules = imported_by(tmp_path / "home", "theatre", "run", str(template), "--quiet")
    assert code == 0
    assert "asyncio" in modules
    assert modules.isdisjoint(HTTP_CLIENT)


def test_a_client_of_services_loads_nothing_that_starts_programs_and_no_validator() -> None:
    script = (
        "import sys, theatre.oracles.http, theatre.oracles.retry;"
        "from theatre.engine.schema_registry import SchemaRegistry;"
        "assert SchemaRegistry().inline_faults({}) == [];"
        "print(*sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    seen = set(ended.stdout.decode().split())
    assert "theatre.oracles.http" in seen
    assert seen.isdisjoint({"jsonschema", "referencing", "theatre.oracles.construct_registry"})


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    """Commands of two other distributions: one that works and one that does not load."""
    info = tmp_path / "plugin-1.0.dist-info"
    info.mkdir()
    (tmp_path / "greeting.py").write_text(
        'import click\n\n@click.command()\ndef greet():\n    click.echo("hello")\n\n'
        'COMMANDS = {"greet": ("greeting:greet", "Say hello."), '
        '"theatre": ("greeting:greet", "Say hello instead.")}\n',
        encoding="utf-8",
    )
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[echelon.commands]\nplugin = greeting:COMMANDS\nbroken = no_such_module:COMMANDS\n"
    )
    return tmp_path


def test_commands_of_other_distributions_are_listed_and_run(plugins: Path) -> None:
    more = {"PYTHONPATH": str(plugins)}
    listed = echelon("--help", home=plugins, more=more)
    lines = listed.stdout.partition("Commands:\n")[2].splitlines()
    shown = dict(line.split(maxsplit=1) for line in lines)
    assert (listed.code, shown) == (
        0,
        {name: line for name, (_, line) in COMMANDS.items()} | OTHERS,
    )
    greeted = echelon("greet", home=plugins, more=more)
    assert (greeted.code, greeted.stdout, greeted.stderr) == (0, "hello\n", "")


def test_no_other_distribution_takes_the_name_of_a_command_of_ours(plugins: Path) -> None:
    answer = echelon("theatre", "--help", home=plugins, more={"PYTHONPATH": str(plugins)})
    assert answer.stdout.startswith("Usage: echelon theatre")


def test_a_command_that_does_not_load_says_why(plugins: Path) -> None:
    answer = echelon("broken", home=plugins, more={"PYTHONPATH": str(plugins)})
    assert answer.code == 1
    assert answer.stderr.endswith("ModuleNotFoundError: No module named 'no_such_module'\n")
