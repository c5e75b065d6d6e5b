"""What a template commits about people's scores (docs/evidence.md, "Human scores").

Source: contract/template.md, `hitl_steps` and rule 11. Read from the document once more: what is
asked of whom must not be taken from the code that asked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

from theatre.engine.bundle_check.reading.json_values import DefectError, shown
from theatre.engine.canonical_json import JsonObject
from theatre.engine.scoring import exact

RUBRIC = "hitl_rubric"
AGGREGATION = "aggregation"

_FILE_NAME = re.compile(r"[^/\x00-\x1f]{1,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedRubric:
    """One rating: a scale from `low` to `high`, how many items, and who is enough.

    `share` is that of the human part in the criterion's score, None where it moves none;
    `timeout_seconds` None where the document writes no limit. `in_aggregate` tells whether the
    step stands before the first aggregation.
    """

    step_id: str
    low: Fraction
    high: Fraction
    minimum_scorers: int
    scorer_must_not_be_author: bool
    items: int
    criterion_id: str | None
    share: float | None
    timeout_seconds: float | None
    in_aggregate: bool

    @property
    def path(self) -> str:
        """Return where the bundle has the scores."""
        return f"hitl/{self.step_id}.jsonl"

    def scaled(self, score: float) -> Fraction:
        """Return where `score` lies between the ends of the scale: 0 at `low`, 1 at `high`."""
        return (exact(score) - self.low) / (self.high - self.low)


def committed_rubrics(document: JsonObject) -> Mapping[str, CommittedRubric]:
    """Return step_id → rubric, in the order of the programme.

    Raises DefectError for a rating without its step or the other way round, for a scale without
    length, and for a share that no arithmetic could take in.
    """
    entries = cast("list[JsonObject]", document.get("hitl_steps", []))
    by_id = {cast("str", entry["step_id"]): entry for entry in entries}
    programme = cast("list[JsonObject]", document["resolution_programme"])
    asked = [cast("str", step["step_id"]) for step in programme if step["type"] == RUBRIC]
    if len(by_id) != len(entries) or sorted(by_id) != sorted(asked):
        wanted = f"an entry in hitl_steps for each of the {RUBRIC} steps {shown([*asked])}"
        raise DefectError(wanted, shown([entry["step_id"] for entry in entries]))
    kinds = [step["type"] for step in programme]
    first = kinds.index(AGGREGATION) if AGGREGATION in kinds else len(kinds)
    rubrics = [
        _rubric(step, by_id[cast("str", step["step_id"])], in_aggregate=number < first)
        for number, step in enumerate(programme)
        if step["type"] == RUBRIC
    ]
    _require_countable(rubrics, document)
    return {rubric.step_id: rubric for rubric in rubrics}


def _rubric(step: JsonObject, entry: JsonObject, *, in_aggregate: bool) -> CommittedRubric:
    scale = cast("Mapping[str, float]", entry["scoring_scale"])
    identity = cast("JsonObject", entry.get("identity_separation", {}))
    step_id = cast("str", step["step_id"])
    low, high = exact(scale["min"]), exact(scale["max"])
    if low >= high:
        raise DefectError(f"a scale of {shown(step_id)} with min below max", shown({**scale}))
    if not _FILE_NAME.fullmatch(step_id) or step_id in {".", ".."}:
        raise DefectError(f"a step_id of a {RUBRIC} that is the name of a file", shown(step_id))
    return CommittedRubric(
        step_id=step_id,
        low=low,
        high=high,
        minimum_scorers=int(cast("float", identity.get("minimum_scorers", 1))),
        scorer_must_not_be_author=identity.get("scorer_must_not_be_author", True) is True,
        items=int(cast("float", entry.get("items", 1))),
        criterion_id=cast("str | None", entry.get("criterion_id")),
        share=cast("float | None", entry.get("share")),
        timeout_seconds=cast("float | None", step.get("timeout_seconds")),
        in_aggregate=in_aggregate,
    )


def _require_countable(rubrics: Sequence[CommittedRubric], document: JsonObject) -> None:
    """Let a criterion have one human part at most, known when its score is made."""
    criteria = cast("list[str]", cast("JsonObject", document["criteria"])["criteria_ids"])
    for rubric in rubrics:
        if rubric.criterion_id is not None and rubric.criterion_id not in criteria:
            raise DefectError("a rating of a committed criterion", shown(rubric.criterion_id))
        if rubric.criterion_id is not None and not rubric.in_aggregate:
            wanted = "a rating of a criterion before the first aggregation"
            raise DefectError(wanted, f"{shown(rubric.step_id)} behind it")
    shared = Counter(one.criterion_id for one in rubrics if one.share is not None)
    for criterion, times in shared.items():
        if criterion is None or times > 1:
            raise DefectError("one step with a share in each criterion", shown(criterion))
