"""Prints what the hook adds to an evaluation of a real model by inspect_ai. It asserts nothing.

The small model of `make models` is asked by inspect_ai, with the hook and without, in turns: the
processor time of inspect_ai's process and of the model's, and wall clock, in seconds.
`python -m tests.benchmarks.hooked_model [SAMPLES] [ROUNDS]`, after `make .venv-models .venv-peers`.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.models import NAME, PORT, server
from tests.sealed_evidence import ROOT

INSPECT = ROOT / ".venv-peers" / "bin" / "inspect"
TASK = "fixtures/harness/model_task.py"


class Taken(NamedTuple):
    """Seconds of one evaluation."""

    harness: float
    model: float
    wall: float


def processor_of(process: subprocess.Popen[bytes]) -> float:
    """Return the seconds of processor time that a running process has taken (Linux only)."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    # Fields 14 and 15 of proc(5); the first two stand before the bracket.
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def evaluate(
    model: subprocess.Popen[bytes], samples: int, folder: Path, *, is_hooked: bool
) -> Taken:
    """Evaluate so many samples in a process of their own; RuntimeError where it fails."""
    draft = folder / "template.yaml"
    draft.write_text("display_name: Kinds of commits\n", encoding="utf-8")
    own = {
        "INSPECT_LOG_DIR": str(folder / "logs"),
        "ECHELON_HOME": str(folder / "home"),
        "ECHELON_TRUST_HOME": str(folder / "trust"),
        "LOCAL_API_KEY": "none",
        "LOCAL_BASE_URL": f"http://127.0.0.1:{PORT}/v1",
        **({"ECHELON_INSPECT": str(draft)} if is_hooked else {}),
    }
    asked = ("-T", f"count={samples}", "--model", f"openai-api/local/{NAME}", "--display", "none")
    began, before = time.perf_counter(), processor_of(model)
    process = subprocess.Popen(
        (INSPECT, "eval", TASK, *asked, "--max-connections", "1"),
        cwd=ROOT,
        env={**os.environ, **own},
        stderr=subprocess.PIPE,
    )
    said = b"" if process.stderr is None else process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0 or (b"certified" in said) is not is_hooked:
        raise RuntimeError(f"expected an evaluation to end well, got:\n{said.decode()[-2000:]}")
    wall = time.perf_counter() - began
    return Taken(usage.ru_utime + usage.ru_stime, processor_of(model) - before, wall)


def main(samples: int, rounds: int) -> None:
    """Print the medians, and what the hook adds in the median of the rounds."""
    plain: list[Taken] = []
    hooked: list[Taken] = []
    with server() as model, tempfile.TemporaryDirectory() as folder:
        evaluate(model, 2, Path(folder), is_hooked=True)
        for _ in range(rounds):
            plain.append(evaluate(model, samples, Path(folder), is_hooked=False))
            hooked.append(evaluate(model, samples, Path(folder), is_hooked=True))
            sys.stdout.write(f"{plain[-1]}\n{hooked[-1]} with the hook\n")
    pairs = [*zip(plain, hooked, strict=True)]
    processor = statistics.median(
        (more.harness + more.model) / (less.harness + less.model) for less, more in pairs
    )
    wall = statistics.median(more.wall / less.wall for less, more in pairs)
    own = statistics.median(more.harness - less.harness for less, more in pairs)
    sys.stdout.write(
        f"{samples} samples of a real model, median of {rounds}: the hook adds "
        f"{processor - 1:.1%} of processor time and {wall - 1:.1%} of wall clock; "
        f"{own:.2f} s of inspect_ai's process\n"
    )


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    main(*(given + [150, 3][len(given) :]))
