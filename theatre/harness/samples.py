"""What a harness recorded, whichever it was: samples with answers, and how it scored them."""

import contextlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.errors import DatasetError
from theatre.engine.models import Scorer, ScoringCase

_LONGEST_CRITERION = 64 - len("_reported")
_TRUTHS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
SCORES = "scores"
"""The member of an answer with what the harness said of it: measure → number or null."""


class HarnessLogError(DatasetError):
    """A file is no log of the kind that was named, or says two things at once."""

    code = "harness-log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A score that a harness gave, and the scorer of ours that computes it from the answer.

    `scorer` is None where none does; `params` are then empty. `reported` is the mean in the log's
    own summary, in [0, 1], None where it has none. `is_ours` says that the log has no score of that
    name: only ours computes it.
    """

    name: str
    scorer: str | None = None
    params: JsonObject = field(default_factory=dict)
    reported: float | None = None
    is_ours: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessSample:
    """One sample, or one epoch of it: `cluster_key` is then the sample's id.

    `output_data` is None where the construct gave no answer; `error` says why. `scores` are those
    of the harness in [0, 1], None where it gave no number.
    """

    episode_id: str
    input_data: JsonObject
    expected_output: JsonObject | None
    output_data: JsonObject | None
    scores: Mapping[str, float | None] = field(default_factory=dict)
    error: str | None = None
    cluster_key: str | None = None

    def episode(self) -> JsonObject:
        """Return the line of a dataset."""
        line: JsonObject = {"episode_id": self.episode_id, "input_data": self.input_data}
        if self.expected_output is not None:
            line["expected_output"] = self.expected_output
        if self.cluster_key is not None:
            line["cluster_key"] = self.cluster_key
        return line

    def answer(self, measures: Iterable[str]) -> JsonObject:
        """Return members of an answer envelope, with a score or null of each measure."""
        if self.output_data is None:
            return {"status": "error", "error_detail": self.error or "the harness has no answer"}
        # Null is not applicable; what is not there would count 0.
        scores: JsonObject = {name: self.scores.get(name) for name in measures}
        return {"output_data": {**self.output_data, SCORES: scores}}


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessLog:
    """A finished log. `declared` is what the answers are said to come from, the version its hash.

    `harness` is `name@version`, None where rows of a table are no harness's. `samples` opens a new
    pass over the samples, one in memory at a time where the format allows it; it raises
    HarnessLogError.
    """

    harness: str | None
    construct: str
    declared: JsonObject
    measures: tuple[Measure, ...]
    samples: Callable[[], Iterator[HarnessSample]]


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Raise HarnessLogError for a document that is not what its reader takes it for."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise HarnessLogError(
            f"expected {what}, got a document of another form: {error!r:.200}"
        ) from error


def identifier(text: str) -> str:
    """Return a name that constructs, criteria and templates can have."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:64].strip("_") or "unnamed"


def criterion_name(text: str) -> str:
    """Return a name that a criterion can have, also with `_reported` at its end."""
    name = identifier(text)
    return (name if name[0].isalpha() else f"c_{name}")[:_LONGEST_CRITERION].strip("_")


def unit_score(value: JsonValue) -> float | None:
    """Return a harness's number, true or false as a score in [0, 1]; None for anything else."""
    if isinstance(value, bool | int | float) and 0 <= value <= 1:
        return float(value)
    return None


def read_score(value: JsonValue, where: str) -> float | None:
    """Return a score, None for null, an empty text and NaN; HarnessLogError for anything else.

    What is no number from 0 to 1 is never left out of a mean: that one would be of the others.
    """
    if isinstance(value, str):
        word = value.strip().lower()
        if not word:
            return None
        with contextlib.suppress(ValueError):
            value = _TRUTHS[word] if word in _TRUTHS else float(word)
    score = unit_score(value)
    if score is None and value is not None and value == value:  # noqa: PLR0124  # but for NaN
        raise HarnessLogError(
            f"expected a score of 0 to 1, true, false or nothing as {where}, got {value!r:.80}"
        )
    return score


def rescore(measure: Measure, sample: HarnessSample, scorers: Mapping[str, Scorer]) -> float | None:
    """Return what our scorer says of a sample's answer, as a run would; None where it says nothing.

    A sample without an answer is 0, as in a run.
    """
    if measure.scorer is None or sample.expected_output is None:
        return None
    expected = sample.expected_output.get(str(measure.params.get("expected")))
    if expected is None:
        return None
    if sample.output_data is None:
        return 0.0
    own = {name: at for name, at in measure.params.items() if name not in {"field", "expected"}}
    case = ScoringCase(
        input_data=sample.input_data,
        expected=expected,
        answer=sample.output_data.get(str(measure.params.get("field"))),
        params=own,
        hops={},
    )
    score = scorers[measure.scorer].score(case)
    return None if score is None or math.isnan(score) else score
