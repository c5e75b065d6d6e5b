"""Prints what the data audit of 20,000 inputs of 1 KB costs, in the engine and in the check.

`python -m tests.benchmarks.data_audit [EPISODES] [ROUNDS]`. All times are processor time;
asserts nothing.
"""

import random
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tests.benchmarks.figures import seconds_of, show, sizes
from theatre.engine.bundle_check.data_audit import DataAudit as CheckedAudit
from theatre.engine.canonical_json import JsonObject, canonical_bytes
from theatre.engine.scoring import AuditedEpisode, DataAudit

EPISODES, ROUNDS = 20_000, 5
LABELS = ("yes", "no", "none of the two")
WORDS = 3000
LINE: dict[str, Any] = {"outcome": "scored", "scores": {"label": 1}}


def inputs(episodes: int) -> Iterator[JsonObject]:
    """Yield inputs of about a thousand bytes of words that are drawn."""
    drawn = random.Random(1)  # noqa: S311 - invented text
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(drawn.choices(letters, k=drawn.randint(2, 9))) for _ in range(WORDS)]
    for number in range(episodes):
        text = " ".join(drawn.choices(words, k=150))
        yield {
            "id": number,
            "question": text[:500],
            "context": {"text": text[500:960], "tags": ["a", "b"]},
        }


def in_engine(asked: list[JsonObject]) -> JsonObject:
    """Return the audit as a settlement makes it."""
    audit = DataAudit(["label"])
    for number, sent in enumerate(asked):
        label = LABELS[number % len(LABELS)]
        audit.add(
            AuditedEpisode(
                sent=sent,
                truths=[{"label": label}],
                expectations={"label": label},
                scored=True,
                counted={"label"},
                cluster_key=None,
            )
        )
    return audit.as_document()


def in_check(asked: list[JsonObject]) -> JsonObject:
    """Return the audit as the check makes it."""
    audit = CheckedAudit(["label"], canonical_bytes)
    for number, sent in enumerate(asked):
        label = LABELS[number % len(LABELS)]
        question = audit.question(
            sent=sent, truths=[{"label": label}], expectations={"label": label}, cluster_key=None
        )
        audit.add(question, LINE)
    return audit.document()


def main() -> None:
    """Measure both, in turns."""
    episodes, rounds = sizes(EPISODES, ROUNDS)
    asked = list(inputs(episodes))
    size = sum(len(canonical_bytes(sent)) for sent in asked) // episodes
    sys.stdout.write(f"{episodes} inputs of {size} bytes\n")
    audits: dict[str, Callable[[list[JsonObject]], JsonObject]] = {
        "engine": in_engine,
        "check": in_check,
    }
    seconds: dict[str, list[float]] = {name: [] for name in audits}
    for _ in range(rounds):
        for name, audit in audits.items():
            seconds[name].append(seconds_of(partial(audit, asked)))
    for name, taken in seconds.items():
        show(f"data audit, {name}", taken)


if __name__ == "__main__":
    main()
