"""Runs of the pilot theatre whose answers are told apart as options, and their exports."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.theatre.runs import (
    ERROR,
    EXPECTED,
    REFUSED,
    Finished,
    ScriptedAdapter,
    answer_as_asked,
    pilot_stage,
)
from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object
from theatre.engine.rlmf_export import ExportSummary, RlmfExport
from theatre.engine.schema_registry import SchemaRegistry

EXPORTED_AT = datetime(2026, 12, 1, 8, 30, tzinfo=UTC)
EXPORT_TIME = "2026-12-01T08:30:00.000000Z"

COLOURS: JsonValue = [
    {
        "fork_id": "f_01",
        "options": [
            {"option_id": "red", "label": "Red"},
            {"option_id": "blue", "label": "Blue"},
            {"option_id": "other", "label": "Any other colour, or none"},
        ],
    }
]
BY_COLOUR: Mapping[str, JsonValue] = {
    "/fork_definitions": COLOURS,
    "/rlmf_export_config": {"fork_id": "f_01", "output_path": "colour", "truth_path": "colour"},
}
"""Changes of the pilot's template: answer and expectation name one of three colours."""

ON_TO_THE_END: Mapping[str, JsonValue] = {"/execution_policy/on_threshold": "continue"}


def episode(
    seq: int, answer: JsonObject | None = None, expected: JsonObject | None = None
) -> JsonObject:
    """Return an episode that is answered with `answer` and has the expectation `expected`."""
    made: JsonObject = {
        "episode_id": f"pilot-{seq}",
        "input_data": {"seq": seq} | ({} if answer is None else {"answer": answer}),
    }
    return made if expected is None else made | {"expected_output": expected}


def named(colour: str) -> JsonObject:
    """Return an answer that names a colour."""
    return {"output_data": {"colour": colour, "recall": 0.5}}


def run(
    folder: Path,
    records: Sequence[JsonObject],
    *,
    changes: Mapping[str, JsonValue] | None = None,
    further: Mapping[str, bytes] | None = None,
) -> Finished:
    """Run the pilot over `records`, which say what is answered."""
    stage = pilot_stage(
        folder, records, changes={**ON_TO_THE_END, **(changes or {})}, further=further
    )
    return stage.run(ScriptedAdapter(answer_as_asked))


def every_ending(folder: Path) -> Finished:
    """Run seven episodes that end in every way, each with an expectation but the last."""
    records = [
        episode(1, named("red"), EXPECTED),
        episode(2, named("blue"), EXPECTED),
        episode(3, ERROR, EXPECTED),
        episode(4, REFUSED, EXPECTED),
        episode(5, named("mauve"), EXPECTED),
        episode(6, {"output_data": {}}, EXPECTED),
        episode(7, named("red")),
    ]
    return run(folder, records, changes=BY_COLOUR)


def export(bundle: Path, *, at: datetime = EXPORTED_AT) -> list[JsonObject]:
    """Return the records of a bundle's export."""
    return [parse_object(line) for line in raw_export(bundle, at=at)[0]]


def raw_export(bundle: Path, *, at: datetime = EXPORTED_AT) -> tuple[list[bytes], ExportSummary]:
    """Return the lines of a bundle's export and its summary."""
    made = RlmfExport(bundle, SchemaRegistry(), exported_at=at)
    lines = list(made.lines())
    return lines, made.summary()
