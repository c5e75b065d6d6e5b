"""A verification run of an oracle that states how sure it is of each claim."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.theatre.forked_echelon import forked
from tests.theatre.verification.git_history import Commit, repository
from theatre.engine.canonical_json import parse_object

COMMITS = 40

ORACLE = '''
"""Claims one true thing and two false ones, and fails or declines where the title says so."""

from theatre.construct_kit import Refusal

SURENESS = [[0.9, 0.2, 0.6], [0.8, None, 0.1, 0.5], [0.7]]


def summarise(input_data):
    record = input_data["record"]
    place = int(record["title"].split()[-1])
    if place == 4:
        raise Refusal("not this one")
    if place == 20:
        raise RuntimeError("broken")
    claims = ["Changes a.py.", f"Adds `missing_{place}`.", "Removes `nothing_here`."]
    if place == 7:
        claims.append("Changes  a.py.")
    return {
        "summary": f"Adds f{place} to a.py." if place % 2 else "Much was done.",
        "key_claims": [] if place == 6 else claims,
        "follow_up_response": "1",
        "metadata": {"claim_confidence": SURENESS[1 if place == 7 else 2 if place == 8 else 0]},
    }
'''


@dataclass(frozen=True, slots=False, kw_only=True)
class Verified:
    """A run that was verified, in `folder`: what the command printed, and where things lie."""

    folder: Path
    report: dict[str, Any]

    @property
    def bundle(self) -> Path:
        return Path(self.report["bundle_path"])

    @property
    def certificate_file(self) -> Path:
        return self.folder / "kept" / "verification_certificate.json"

    @cached_property
    def certificate(self) -> dict[str, Any]:
        return parse_object(self.certificate_file.read_bytes())

    def lines(self) -> list[dict[str, Any]]:
        """Return the episode lines of the evidence, each with the output that was recorded."""
        found = []
        raw = (self.bundle / "scores" / "per_episode.jsonl").read_bytes().splitlines()
        for seq, line in enumerate(map(parse_object, raw), start=1):
            record: Any = parse_object(
                (self.bundle / "invocations" / f"episode_{seq:06d}.json").read_bytes()
            )
            answer = record["calls"][0]["attempts"][-1]["response"]
            found.append({**line, "output": answer["output_data"]})
        return found


def verified(folder: Path, *, commits: int = COMMITS) -> Verified:
    """Run `echelon verify` on a small history, to its end."""
    bodies = [b"".join(b"def f%d(): pass\n" % i for i in range(at + 1)) for at in range(commits)]
    repository(
        folder / "repo",
        [Commit(message=b"Change %d" % at, files={b"a.py": b}) for at, b in enumerate(bodies)],
    )
    (folder / "confident.py").write_text(ORACLE, encoding="utf-8")
    answer = forked(
        *("verify", "--repo", folder / "repo", "--json", "--quiet", "--min-replays", "5"),
        *("--construct", "confident:summarise", "--folder", folder),
        *("--output", folder / "kept", "--retries", "0"),
        home=folder / "home",
    )
    assert answer.code == 0, answer.stdout + answer.stderr
    return Verified(folder=folder, report=answer.document)
