"""From ground-truth records to the dataset that a run is committed to."""

from __future__ import annotations

from collections.abc import Iterable

from theatre.engine.canonical_json import JsonObject, canonical_line
from theatre.verification.change_facts import change_facts, important_changes
from theatre.verification.questions import make_follow_up
from theatre.verification.records import GroundTruthRecord


def make_episode(record: GroundTruthRecord) -> JsonObject:
    """Return a record as an episode: what the oracle is shown, and what is expected of it.

    A change without anything in it has no `important_changes`: recall does not apply there.
    """
    facts = change_facts(record.diff_content)
    asked = make_follow_up(record, facts)
    expected: JsonObject = {"follow_up": asked.expectation()}
    changes = important_changes(facts)
    if changes:
        expected["important_changes"] = [
            {"operation": c.operation.value, "subject": c.subject, "path": c.path} for c in changes
        ]
    return {
        "episode_id": record.id,
        "input_data": {"record": record.as_document(), "follow_up_question": asked.question},
        "expected_output": expected,
    }


def dataset_lines(records: Iterable[GroundTruthRecord]) -> bytes:
    """Return the dataset as canonical JSONL."""
    return b"".join(canonical_line(make_episode(record)) for record in records)
