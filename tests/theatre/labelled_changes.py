"""The labelled changes of this history, and how far their two passes agree.

`python -m tests.theatre.labelled_changes` prints the agreement for each half that has both passes.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parents[2] / "fixtures" / "labelled" / "changes"
SUPPORTED = "supported"
VERDICTS = (SUPPORTED, "contradicted", "not_in_change", "half_true")


class Agreement(NamedTuple):
    """Of `n` items judged twice: the share with equal labels, and Cohen's kappa.

    Kappa is None where chance alone would agree on all: it is 0/0 then.
    """

    n: int
    raw: float
    kappa: float | None


def agreement(pairs: Iterable[tuple[object, object]]) -> Agreement:
    """Return the agreement of two passes, given as pairs of labels; there must be one at least."""
    counted = Counter(pairs)
    n = counted.total()
    if n == 0:
        raise ValueError("expected labels by two passes, got none")
    first, second = Counter[object](), Counter[object]()
    for (one, other), times in counted.items():
        first[one] += times
        second[other] += times
    equal = sum(times for (one, other), times in counted.items() if one == other)
    by_chance = sum(first[label] * second[label] for label in first)
    if by_chance == n * n:
        return Agreement(n, equal / n, None)
    return Agreement(n, equal / n, (n * equal - by_chance) / (n * n - by_chance))


def read(name: str) -> list[dict[str, Any]]:
    """Return the lines of a file of the folder, which is UTF-8."""
    return [json.loads(line) for line in (FOLDER / name).read_text("utf-8").splitlines()]


def halves() -> list[str]:
    """Return the letters of the halves that are there."""
    return sorted(path.stem.removeprefix("claims_") for path in FOLDER.glob("claims_*.jsonl"))


def judged_twice(half: str) -> list[tuple[str, str]]:
    """Return each claim's verdict by its writer and by the second pass; empty without one."""
    if not (FOLDER / f"second_pass_{half}.jsonl").exists():
        return []
    second = {line["claim_id"]: line["verdict"] for line in read(f"second_pass_{half}.jsonl")}
    return [
        (line["verdict"], second[line["claim_id"]])
        for line in read(f"claims_{half}.jsonl")
        if line["claim_id"] in second
    ]


def agreements(pairs: Sequence[tuple[str, str]]) -> dict[str, Agreement]:
    """Return the agreement on four verdicts, and on whether a claim is supported or not."""
    return {
        "four verdicts": agreement(pairs),
        "supported or not": agreement(
            (one == SUPPORTED, other == SUPPORTED) for one, other in pairs
        ),
    }


def table() -> str:
    """Return the agreements as the README shows them, in Markdown."""
    of_halves = {half: judged_twice(half) for half in halves()}
    rows = {half: pairs for half, pairs in of_halves.items() if pairs}
    if len(rows) > 1:
        rows["all"] = [pair for pairs in rows.values() for pair in pairs]
    lines = ["| half | labels | claims | raw agreement | Cohen's kappa |", "|---|---|---|---|---|"]
    for half, pairs in rows.items():
        for labels, (n, raw, kappa) in agreements(pairs).items():
            shown = "undefined" if kappa is None else f"{kappa:.3f}"
            lines.append(f"| {half} | {labels} | {n} | {raw:.3f} | {shown} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())  # noqa: T201 - it is what the command is for
