"""Prints how long the same two jobs are as tasks of inspect_ai and as drafts of ours.

It asserts nothing. Lines that say something: not blank, no comment. `make bench-peers` prints them;
the jobs are in `fixtures/harness/same_job`. `python -m tests.benchmarks.task_lengths`.
"""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "fixtures" / "harness" / "same_job"
JOBS = {
    "a function": (("function_task.py",), ("function.yaml", "adder.py")),
    "a model": (("model_task.py",), ("model.yaml",)),
}


def lines_of(names: tuple[str, ...]) -> tuple[int, int]:
    """Return lines and characters of files, without blank lines, comments and indentation."""
    texts = [(FOLDER / name).read_text(encoding="utf-8") for name in names]
    said = [line.strip() for text in texts for line in text.splitlines()]
    kept = [line for line in said if line and not line.startswith("#")]
    return len(kept), sum(map(len, kept))


def main() -> None:
    """Print a row for each job and program."""
    for job, (theirs, ours) in JOBS.items():
        for program, names in (("inspect_ai", theirs), ("Echelon", ours)):
            lines, characters = lines_of(names)
            of = " + ".join(names)
            sys.stdout.write(f"{job:10}  {program:10}  {lines:2} lines, {characters:3} ({of})\n")


if __name__ == "__main__":
    main()
