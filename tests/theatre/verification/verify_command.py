"""`echelon verify` on a small history, for the tests of the command line."""

from __future__ import annotations

from pathlib import Path

from tests.theatre.echelon_process import Answer
from tests.theatre.forked_echelon import forked
from tests.theatre.verification.git_history import Commit, repository

COMMITS = 6
EXTRACTIVE = "construct:change_extractive"
MODULE = '''
"""Says that a file was changed; {special}."""

from pathlib import Path
from time import sleep

from theatre.construct_kit import Refusal

HERE = Path({folder!r})


def summarise(input_data):
    title = input_data["record"]["title"]
    {behaviour}
    return {{"summary": "Changes a.py.", "key_claims": ["Changes a.py."], "follow_up_response": "1"}}
'''  # noqa: E501  # one line, as an author would write it
REFUSING = "if title > 'Change 2': raise Refusal('not this one')"
WAITING = """
    while title > 'Change 2' and not (HERE / "go").exists():
        (HERE / "waits").touch()
        sleep(0.005)
"""


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
    return forked(*given, home=folder / "home", more={"ECHELON_OUTBOUND_ALLOW": "127.0.0.1"})


def write_oracle(folder: Path, behaviour: str) -> str:
    """Write a callable into `folder` that does `behaviour` first; return its name."""
    source = MODULE.format(special="and more", folder=str(folder), behaviour=behaviour)
    (folder / "oracle.py").write_text(source, encoding="utf-8")
    return "oracle:summarise"
