"""The modules that an episode, a template and a certificate pass through, by a profile of one run.

usage: python -m tests.trips [episode | template | certificate]

- template: from the text of a file to a committed theatre in the store of the command line;
- episode: from the first call of a construct over HTTP to the last, with the journal's batches;
- certificate: from the last recorded answer to the sealed bundle that has passed the check.

A reader who wants to follow one of them has to open these modules, in this order.
"""

import asyncio
import contextlib
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from click.testing import CliRunner

from tests.benchmarks.trivial_theatre import Mode, commit, construct, run, template_of
from theatre.cli import cli
from theatre.engine.canonical_json import canonical_bytes

ROOT = Path(__file__).resolve().parent.parent
EPISODES = 300
# The first and the last of these are where the episodes' trip begins and ends.
CALL = ("theatre/oracles/http.py", "invoke")
# Begins the certificate's trip.
SETTLE = ("theatre/engine/theatre.py", "settle")
MODE = Mode(name="trip", concurrency=1, sanitises=True)

Call = tuple[str, str]
"""A module and the name of a function in it."""


@dataclass(slots=True)
class Profile:
    """The calls of functions of the project, in order."""

    calls: list[Call] = field(default_factory=list)

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Keep a call that is one of ours: a comprehension is no step of its own."""
        module, name = frame.f_code.co_filename, frame.f_code.co_name
        if event == "call" and not name.startswith("<") and module.startswith(f"{ROOT}/theatre/"):
            self.calls.append((module.removeprefix(f"{ROOT}/"), name))


@contextlib.contextmanager
def profiled() -> Iterator[list[Call]]:
    """Yield the list into which the calls of all threads go."""
    profile = Profile()
    threading.setprofile(profile.note)
    sys.setprofile(profile.note)
    try:
        yield profile.calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def trips(home: Path) -> Mapping[str, Sequence[Call]]:
    """Return the calls of each trip, in order."""
    with construct() as url:
        store, theatre_id = commit(home / "run", EPISODES, MODE)
        with profiled() as calls:
            asyncio.run(run(store, theatre_id, url))
    called = [index for index, call in enumerate(calls) if call == CALL]
    return {
        "template": _commit_calls(home),
        "episode": calls[called[0] : called[-1]],
        "certificate": calls[calls.index(SETTLE) :],
    }


def _commit_calls(home: Path) -> Sequence[Call]:
    """Return the calls of a commit: of the second one, which imports nothing any more."""
    truth = (home / "run" / "truth.jsonl").read_bytes()
    (home / "truth.jsonl").write_bytes(truth)
    (home / "template.json").write_bytes(canonical_bytes(template_of(truth, MODE)))
    (home / "constructs.toml").write_text(
        '[constructs.trivial]\nurl = "https://trivial.example/"\n'
    )
    _commit(home)
    with profiled() as calls:
        _commit(home)
    return calls


def _commit(home: Path) -> None:
    outcome = CliRunner().invoke(
        cli,
        ["theatre", "commit", str(home / "template.json")],
        env={"ECHELON_HOME": str(home / "store")},
    )
    if outcome.exit_code:
        raise RuntimeError(f"expected a committed theatre, got: {outcome.output}")


def main() -> None:
    """Print the modules of the trips, in the order in which they are first entered."""
    wanted = sys.argv[1:]
    with tempfile.TemporaryDirectory() as home:
        for name, calls in trips(Path(home)).items():
            if wanted and name not in wanted:
                continue
            counted = Counter(module for module, _ in calls)
            sys.stdout.write(f"{name}: {len(counted)} modules, {len(calls)} calls\n")
            for module in dict.fromkeys(module for module, _ in calls):
                sys.stdout.write(f"{counted[module]:8} {module}\n")


if __name__ == "__main__":
    main()
