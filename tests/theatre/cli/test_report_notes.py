"""What a report says beside the scores: a gap that the draw of the holdout does not explain."""

import asyncio
import hashlib
from itertools import count
from pathlib import Path
from typing import Any

from tests.theatre.cli.doubler import EPISODES, double, run, write_theatre
from tests.theatre.forked_echelon import forked
from tests.theatre.oracles.loopback import Received, Respond, envelope, response, serving
from theatre.engine.canonical_json import parse_object
from theatre.engine.commitment import CommitmentProtocol

SCORING: dict[str, Any] = {
    "holdout_split": 0.5,
    "criteria_scorers": {
        "right": {"scorer": "exact_match", "params": {"field": "result", "expected": "double"}}
    },
}
NOTE = "note         {name}: train part 1.000 above the holdout, beyond sampling error"


def held_out(template: Path) -> set[str]:
    """Return the ids of the holdout, as docs/contract/scoring.md draws it."""
    commitment_hash = CommitmentProtocol.hash_template(parse_object(template.read_bytes()))
    drawn = {}
    for number in range(1, EPISODES + 1):
        digest = hashlib.sha256(f"{commitment_hash}:e{number}".encode()).hexdigest()
        drawn[f"e{number}"] = int(digest[:16], 16) / 2**64
    return {episode_id for episode_id, share in drawn.items() if share < SCORING["holdout_split"]}


def drawn_theatre(folder: Path, url: str) -> tuple[Path, set[str]]:
    """Write a template whose draw leaves at least two episodes on either side."""
    for number in count():
        template = write_theatre(
            folder,
            adapter_type="http",
            endpoint=url,
            scoring=SCORING,
            display_name=f"Doubler, draw {number}",
        )
        unseen = held_out(template)
        if 2 <= len(unseen) <= EPISODES - 2:
            return template, unseen
    raise AssertionError("expected a draw that suits")


def right_but_on(unseen: set[str]) -> Respond:
    """Answer as who knows by heart all episodes but these."""

    async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
        if f"e{request.envelope['input_data']['number']}" not in unseen:
            await double(request, writer)
        else:
            writer.write(response(envelope(request, output_data={"result": None})))

    return respond


def shown_of(folder: Path, *, fails_on_the_holdout: bool) -> str:
    """Run the doubler on loopback; return what `show` prints."""
    wrong_on: set[str] = set()
    with serving(right_but_on(wrong_on)) as server:
        template, unseen = drawn_theatre(folder, server.url)
        wrong_on |= unseen if fails_on_the_holdout else set()
        answer = run(template, allow="127.0.0.1")
    assert answer.code == 0, answer.stdout
    return forked("theatre", "show", answer.document["theatre_id"], home=folder / "home").stdout


def test_a_construct_that_fails_on_the_holdout_alone_gets_a_note_on_each_score(
    tmp_path: Path,
) -> None:
    lines = shown_of(tmp_path, fails_on_the_holdout=True).splitlines()
    assert [line for line in lines if line.startswith("note")] == [
        NOTE.format(name="composite_score"),
        NOTE.format(name="right"),
    ]


def test_a_construct_that_is_right_everywhere_gets_none_and_without_confidence_no_calibration(
    tmp_path: Path,
) -> None:
    shown = shown_of(tmp_path, fails_on_the_holdout=False)
    assert "right" in shown
    assert "note" not in shown
    assert "calibration" not in shown
