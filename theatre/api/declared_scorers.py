"""`@scorer`: a function of an answer and an expectation as a scorer, for an entry point.

A run takes it by its entry point of the group `echelon.scorers`, as every scorer
(docs/contract/scoring.md §2): who checks a certificate installs the same distribution. Without it
the check says so, `unavailable`, and gives no verdict that is worth anything.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from theatre.engine.canonical_json import JsonObject, JsonValue, sha256_hex
from theatre.engine.models import Scorer, ScorerKind, ScoringCase

ScoreFunction: TypeAlias = Callable[[JsonValue, JsonValue], float | None]

_DIGITS: Final = 12
_PARAMS: Final[JsonObject] = {
    "type": "object",
    "properties": {"field": {"type": "string"}, "expected": {"type": "string"}},
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredScorer(Scorer):
    """A scorer that can also be called as the function that it was made of."""

    function: ScoreFunction

    def __call__(self, answer: JsonValue, expected: JsonValue) -> float | None:
        """Return what the function returns, for tests of its own."""
        return self.function(answer, expected)


def scorer(
    *, kind: Literal["exact", "textual"], name: str | None = None, version: str | None = None
) -> Callable[[ScoreFunction], DeclaredScorer]:
    """Declare a function `(answer, expected)` to be a scorer; a template's params are two paths.

    `answer` is what lies at `field` in the output, `expected` what lies at `expected` in the
    expectation. The function returns a number from 0 to 1, or None where the criterion is undefined
    for this answer; it must not raise on any answer. `kind` is what the score rests on: `exact`
    values, or the words of a text, which carry no tier. `name` is by default the function's.
    `version` is by default made of the SHA-256 of its file, so that every edit there is another
    one; what the file imports is not in it.

    Raises ValueError for another kind, and for a function that comes from no file.
    """
    of_kind = ScorerKind(kind)

    def declare(function: ScoreFunction) -> DeclaredScorer:
        def score(case: ScoringCase) -> float | None:
            return function(case.answer, case.expected)

        return DeclaredScorer(
            name=name or function.__name__,
            version=version or _file_version(function),
            kind=of_kind,
            params_schema=_PARAMS,
            score=score,
            function=function,
        )

    return declare


def _file_version(function: ScoreFunction) -> str:
    file = inspect.getsourcefile(function)
    if file is None or not Path(file).is_file():
        raise ValueError("expected a function from a file, or a version, got neither")
    return sha256_hex(Path(file).read_bytes())[:_DIGITS]
