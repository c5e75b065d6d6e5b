"""`echelon verify` on a small history, for the tests of the command line."""

from pathlib import Path

from tests.theatre.construct_door import ConstructDoor, door_of, report_source
from tests.theatre.echelon_process import Answer
from tests.theatre.forked_echelon import forked
from tests.theatre.verification.git_history import Commit, repository

COMMITS = 6
EXTRACTIVE = "construct:change_extractive"
MODULE = '''
"""Says that a file was changed; {special}."""

from theatre.construct_kit import Refusal
{helpers}

def summarise(input_data):
    title = input_data["record"]["title"]
    {behaviour}
    return {{"summary": "Changes a.py.", "key_claims": ["Changes a.py."], "follow_up_response": "1"}}
'''  # noqa: E501  # one line, as an author would write it
REFUSING = "if title > 'Change 2': raise Refusal('not this one')"
HELD_CALL = 4
"""The change that a held oracle does not answer, until it is asked again."""
REGISTRY = """
[constructs.held]
argv = ["{python}", "-m", "theatre.construct_kit", "--stdio", "--folder", "{folder}", "oracle:summarise"]
folder = "."
files = ["oracle.py"]
network = true
"""  # noqa: E501  # as above


def history(folder: Path, *, commits: int = COMMITS) -> Path:
    """Make a repository of changes to one file."""
    bodies = (b"def f%d():\n    return %d\n" % (at, at) for at in range(commits))
    return repository(
        folder,
        [
            Commit(message=b"Change %d" % at, files={b"a.py": body})
            for at, body in enumerate(bodies)
        ],
    )


def arguments(folder: Path, *options: str, construct: str = EXTRACTIVE) -> list[str]:
    """Return the command for an oracle: one that ships, a URL, or a module in `folder`."""
    repo = folder / "repo"
    if not repo.exists():
        history(repo)
    named = ("--construct", construct, "--folder", str(folder))
    return ["verify", "--repo", str(repo), *named, "--min-replays", str(COMMITS), *options]


def verify(folder: Path, *options: str, construct: str = EXTRACTIVE) -> Answer:
    """Run it to its end; services on this machine may be called."""
    given = arguments(folder, *options, "--json", construct=construct)
    return command(folder, *given)


def command(folder: Path, *given: str | Path) -> Answer:
    """Run any command with the home of `folder`."""
    return forked(*given, home=folder / "home", more=variables(folder))


def variables(folder: Path) -> dict[str, str]:
    """Return what lets a command call services of this machine, and constructs of `folder`."""
    constructs = str(folder / "constructs.toml")
    return {"ECHELON_OUTBOUND_ALLOW": "127.0.0.1", "ECHELON_CONSTRUCTS": constructs}


def write_oracle(folder: Path, behaviour: str, helpers: str = "") -> str:
    """Write a callable into `folder` that does `behaviour` first; return its name."""
    source = MODULE.format(special="and more", behaviour=behaviour, helpers=helpers)
    (folder / "oracle.py").write_text(source, encoding="utf-8")
    return "oracle:summarise"


def held_oracle(folder: Path) -> tuple[str, ConstructDoor]:
    """Register an oracle that holds one call; return its name, and where its calls are seen."""
    write_oracle(folder, "report(title=title)", report_source(repr(str(folder))))
    (folder / "constructs.toml").write_text(REGISTRY, encoding="utf-8")
    door = door_of(folder)
    door.held_call = HELD_CALL
    return "construct:held", door
