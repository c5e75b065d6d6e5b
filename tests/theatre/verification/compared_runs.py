"""Sealed verifications of several oracles on one small history, for the tests of comparisons."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.theatre.echelon_process import Answer
from tests.theatre.forked_echelon import forked
from tests.theatre.verification.git_history import Commit, repository

COMMITS = 24

ORACLES = '''
"""Oracles that say a known share of what is right, as sure of it as they say."""

from theatre.construct_kit import Refusal


def place_of(input_data):
    return int(input_data["record"]["title"].split()[-1])


def answer(claims, summary, reply, sure):
    return {
        "summary": summary,
        "key_claims": claims,
        "follow_up_response": reply,
        "metadata": {"claim_confidence": sure},
    }


def right(input_data):
    place = place_of(input_data)
    return answer(["Changes a.py."], f"Adds f{place} to a.py.", "1", [0.9])


def half(input_data):
    """Beside the right claim a false one, of which it is sure; a summary of odd changes only."""
    place = place_of(input_data)
    claims = ["Changes a.py.", f"Adds `missing_{place}`."]
    summary = f"Adds f{place} to a.py." if place % 2 else "Much was done."
    return answer(claims, summary, "1", [0.3, 0.8])


def declining(input_data):
    """As good as `right`, but declines three changes and breaks on one."""
    place = place_of(input_data)
    if place in (1, 2, 3):
        raise Refusal("not this one")
    if place == 5:
        raise RuntimeError("broken")
    return right(input_data)


def curt(input_data):
    """Claims what is right, says nothing else, and is sure of nothing."""
    return {"summary": "", "key_claims": ["Changes a.py."], "follow_up_response": "2"}
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A home with verifications of one history."""

    folder: Path

    def verify(self, name: str, *options: str, data: str = "data") -> Path:
        """Run an oracle to its end; return its bundle."""
        answer = self.echelon(
            *("verify", "--data", str(self.folder / data), "--json", "--quiet"),
            *("--min-replays", "5", "--retries", "0", "--construct-id", name),
            *("--construct", f"oracles:{name}", "--folder", str(self.folder), *options),
        )
        assert answer.code == 0, answer.stdout + answer.stderr
        return Path(answer.document["bundle_path"])

    def ingest(self, data: str, *options: str) -> None:
        """Keep the history, or a part of it, as ground truth."""
        kept = self.echelon(
            *("ingest", "--repo", str(self.folder / "repo"), *options),
            *("--output", str(self.folder / data)),
        )
        assert kept.code == 0, kept.stderr

    def echelon(self, *arguments: str | Path) -> Answer:
        """Run a command in this home."""
        return forked(*arguments, home=self.folder / "home")


def small_history(folder: Path) -> Compared:
    """Make a history in which each change adds a function to one file, and keep it."""
    bodies = [b"".join(b"def f%d(): pass\n" % i for i in range(at + 1)) for at in range(COMMITS)]
    repository(
        folder / "repo",
        [Commit(message=b"Change %d" % at, files={b"a.py": b}) for at, b in enumerate(bodies)],
    )
    (folder / "oracles.py").write_text(ORACLES, encoding="utf-8")
    runs = Compared(folder=folder)
    runs.ingest("data")
    return runs


def episode_lines(bundle: Path) -> list[dict[str, Any]]:
    """Return what the evidence says of each change."""
    raw = (bundle / "scores" / "per_episode.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in raw.splitlines()]
