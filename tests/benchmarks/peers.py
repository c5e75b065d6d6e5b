"""Prints what an HTTP episode costs here and in inspect_ai, and what the hook adds.

It asserts nothing.

`make bench-peers` installs inspect_ai into an environment of its own and runs this in it. Each
figure is the processor time, user and system, of a whole process: imports, data, run, results.
`python -m tests.benchmarks.peers [EPISODES] [ROUNDS]`.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.benchmarks.trivial_theatre import Mode, commit, construct, run

CHECKOUT = Path(__file__).parents[2]
TASK = "fixtures/harness/http_task.py"
CONCURRENCY = 16


def measure(words: list[str], environment: Mapping[str, str]) -> float:
    """Return the seconds of processor time that this module took in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.peers", *words],
        cwd=CHECKOUT,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    complaints = b"" if process.stderr is None else process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"expected {words} to end well, got:\n{complaints.decode()[-2000:]}")
    return usage.ru_utime + usage.ru_stime


def run_here(url: str, episodes: int) -> None:
    """Run so many episodes to a sealed bundle."""
    mode = Mode(name="peers", concurrency=CONCURRENCY, sanitises=False)
    with tempfile.TemporaryDirectory() as folder:
        store, theatre_id = commit(Path(folder) / "home", episodes, mode)
        asyncio.run(run(store, theatre_id, url))


def run_inspect(url: str, episodes: int) -> None:
    """Evaluate so many samples with inspect_ai; the log goes to INSPECT_LOG_DIR."""
    # Not in the project's own environment: its types are unknown.
    inspect_ai = importlib.import_module("inspect_ai")
    (log,) = inspect_ai.eval(
        TASK,
        task_args={"url": url, "count": episodes},
        model="mockllm/model",
        max_samples=CONCURRENCY,
        display="none",
    )
    if log.status != "success" or log.results.scores[0].metrics["accuracy"].value != 1:
        raise RuntimeError(f"expected every answer to be right, got {log.status}")


def compare(episodes: int, rounds: int) -> None:
    """Print the figures; the three take turns, so that a busy machine is as busy for each."""
    kinds = {"Echelon": "here", "inspect_ai": "inspect", "inspect_ai and the hook": "inspect"}
    taken: dict[str, list[float]] = {name: [] for name in kinds}
    with construct() as url, tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "template.yaml"
        draft.write_text("display_name: Questions\n", encoding="utf-8")
        for number in range(rounds):
            own = {
                "INSPECT_LOG_DIR": f"{folder}/logs-{number}",
                "ECHELON_HOME": f"{folder}/home-{number}",
                "ECHELON_TRUST_HOME": f"{folder}/trust",
            }
            for name, kind in kinds.items():
                hooked = {"ECHELON_INSPECT": str(draft)} if "hook" in name else {}
                taken[name].append(measure([kind, url, str(episodes)], own | hooked))
    for name, seconds in taken.items():
        each = statistics.median(seconds) / episodes * 1000
        print(f"{name:25} {each:8.3f} ms an episode, median of {rounds}, {episodes} episodes")  # noqa: T201  # figures are the result
    pairs = zip(taken["inspect_ai"], taken["Echelon"], strict=True)
    print(f"inspect_ai / Echelon      {statistics.median(a / b for a, b in pairs):8.1f}")  # noqa: T201  # as above
    hooked_pairs = zip(taken["inspect_ai and the hook"], taken["inspect_ai"], strict=True)
    added = statistics.median(a / b for a, b in hooked_pairs) - 1
    print(f"the hook adds             {added:8.1%}")  # noqa: T201  # as above


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["here", url, count]:
            run_here(url, int(count))
        case ["inspect", url, count]:
            run_inspect(url, int(count))
        case words:
            numbers = [int(word) for word in words]
            compare(*(numbers + [2_000, 3][len(numbers) :]))
