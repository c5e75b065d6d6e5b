"""A file of human scores: `{"episode_id": …, "score": …, "comment": …}` a line."""

from __future__ import annotations

from pathlib import Path

from theatre.cli.input_files import read_file
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.errors import ParseError
from theatre.engine.replay import SubmittedScore

_MEMBERS = frozenset({"episode_id", "score", "comment"})


def read_scores(path: Path) -> list[SubmittedScore]:
    """Return the scores of a file; blank lines are passed over.

    Raises NotFoundError where there is none, and ParseError with the number of the line for what
    is no score. Whether a score is eligible is for the theatre to say.
    """
    lines = read_file(path, what="a file of scores").splitlines()
    found = [_score(n, line) for n, line in enumerate(lines, start=1) if line.strip()]
    if not found:
        raise ParseError(f"expected scores in {path}, a JSON object a line, got none")
    return found


def _score(number: int, line: bytes) -> SubmittedScore:
    try:
        document = parse_object(line)
    except ParseError as error:
        raise ParseError(f"line {number}: {error}", reason=error.reason) from error
    _check_members(number, document)
    episode_id, comment = document["episode_id"], document.get("comment")
    if not isinstance(episode_id, str) or not isinstance(comment, str | None):
        raise ParseError(f"line {number}: expected episode_id and comment as text")
    return SubmittedScore(episode_id=episode_id, score=document["score"], comment=comment)


def _check_members(number: int, document: JsonObject) -> None:
    unknown = sorted(document.keys() - _MEMBERS)
    missing = sorted({"episode_id", "score"} - document.keys())
    if unknown or missing:
        seen = f"unknown {', '.join(unknown)[:100]}" if unknown else f"no {missing[0]}"
        raise ParseError(f"line {number}: expected episode_id, score and maybe comment, got {seen}")
