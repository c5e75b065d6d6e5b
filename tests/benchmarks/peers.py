"""Prints what an HTTP episode costs here and in inspect_ai, and what the hook adds.

It asserts nothing.

`make bench-peers` installs inspect_ai into an environment of its own and runs this in it; Echelon
runs in the project's, where there is one: what inspect_ai installs is loaded by libraries of ours,
too. Measured
are processor time, user and system, and wall clock of whole processes: imports, data, run, results.
A second size, twice the first, gives what an episode more costs, without the start of either
process. A smaller one would not: up to a thousand episodes, each record is a file of its own here.
All of it twice: of a service that answers at once, and of one whose answers take `WAIT_SECONDS`, as
a model's do.
`python -m tests.benchmarks.peers [EPISODES] [ROUNDS]`.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).parents[2]
OWN = CHECKOUT / ".venv" / "bin" / "python"
TASK = "fixtures/harness/http_task.py"
CONCURRENCY = 16
WAIT_SECONDS = 0.075
DRAFT = """\
construct: {{adapter: http, id: trivial, endpoint: "{url}", version: {version}}}
data: truth.jsonl
answer: answer
measure: exact_match
template: {{execution_policy: {{max_concurrency: {concurrency}}}}}
"""


class Taken(NamedTuple):
    """Seconds of processor time and of wall clock."""

    processor: float
    wall: float

    def since(self, other: Taken, episodes: int) -> Taken:
        """Return what each of so many episodes took that this has more than `other`."""
        return Taken(
            (self.processor - other.processor) / episodes, (self.wall - other.wall) / episodes
        )


def measure(words: list[str], environment: Mapping[str, str]) -> Taken:
    """Return what this module took in a process of its own."""
    is_own = words[0] == "here" and OWN.exists()
    began = time.perf_counter()
    process = subprocess.Popen(
        [OWN if is_own else sys.executable, "-m", "tests.benchmarks.peers", *words],
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
    return Taken(usage.ru_utime + usage.ru_stime, time.perf_counter() - began)


def run_here(url: str, episodes: int) -> None:
    """Run so many episodes as `echelon run` does: pinned, logged, signed, checked and reported."""
    # Here, not above: inspect_ai's process would pay for it, and hide what the hook loads.
    from theatre.cli import main

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        draft = DRAFT.format(url=url, version="c0ffee" * 10 + "beef", concurrency=CONCURRENCY)
        Path("echelon.yaml").write_text(draft, encoding="utf-8")
        with Path("truth.jsonl").open("w", encoding="utf-8") as lines:
            for seq in range(episodes):
                asked = f'"input_data":{{"question":"Is it?","seq":{seq}}}'
                lines.write(
                    f'{{"episode_id":"e-{seq}","expected_output":{{"answer":"yes"}},{asked}}}\n'
                )
        sys.argv = ["echelon", "run"]
        main()


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


KINDS = {"Echelon": "here", "inspect_ai": "inspect", "inspect_ai and the hook": "inspect"}


def one_round(url: str, folder: Path, episodes: int) -> dict[str, Taken]:
    """Return what each kind took; they take turns, so a busy machine is as busy for each."""
    own = {
        "INSPECT_LOG_DIR": f"{folder}/logs",
        "ECHELON_HOME": f"{folder}/home",
        "ECHELON_TRUST_HOME": f"{folder}/trust",
        "ECHELON_OUTBOUND_ALLOW": "127.0.0.1",
        # An installed package has its bytecode: neither side pays for compiling in each process.
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": f"{folder.parent}/bytecode",
    }
    folder.mkdir()
    draft = folder / "template.yaml"
    draft.write_text("display_name: Questions\n", encoding="utf-8")
    hooked = {"ECHELON_INSPECT": str(draft)}
    return {
        name: measure([kind, url, str(episodes)], own | (hooked if "hook" in name else {}))
        for name, kind in KINDS.items()
    }


def show(title: str, taken: Sequence[dict[str, Taken]]) -> None:
    """Print milliseconds an episode and the ratios of neighbours, each the median of rounds."""
    sys.stdout.write(f"{title}, median of {len(taken)}\n")
    for at, clock in enumerate(("processor", "wall clock")):
        for name in KINDS:
            each = statistics.median(one[name][at] for one in taken) * 1000
            sys.stdout.write(f"  {name:25} {each:8.3f} ms an episode, {clock}\n")
        plain = [one["inspect_ai"][at] for one in taken]
        hooked = [one["inspect_ai and the hook"][at] for one in taken]
        ratio = statistics.median(
            one / own["Echelon"][at] for one, own in zip(plain, taken, strict=True)
        )
        added = statistics.median(one / bare for one, bare in zip(hooked, plain, strict=True)) - 1
        sys.stdout.write(f"  inspect_ai / Echelon      {ratio:8.1f}    {clock}\n")
        sys.stdout.write(f"  the hook adds             {added:8.1%}    {clock}\n")
    sys.stdout.flush()


def compare(episodes: int, rounds: int, seconds: float) -> None:
    """Print the figures: of whole processes, and of an episode more, without what starts cost."""
    from tests.benchmarks.trivial_theatre import construct

    more, whole, slopes = 2 * episodes, [], []
    with construct(seconds) as url, tempfile.TemporaryDirectory() as folder:
        one_round(url, Path(folder) / "bytecode-is-written", 1)
        for number in range(rounds):
            small = one_round(url, Path(folder) / f"few-{number}", episodes)
            large = one_round(url, Path(folder) / f"many-{number}", more)
            nothing = Taken(0, 0)
            whole.append({name: small[name].since(nothing, episodes) for name in KINDS})
            slopes.append({name: large[name].since(small[name], more - episodes) for name in KINDS})
    waits = f"answers after {1000 * seconds:g} ms"
    show(f"{waits}: whole processes, {episodes} episodes", whole)
    show(f"{waits}: an episode more, between {episodes} and {more}", slopes)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["here", url, count]:
            run_here(url, int(count))
        case ["inspect", url, count]:
            run_inspect(url, int(count))
        case words:
            numbers = [int(word) for word in words]
            episodes, rounds = numbers + [2_000, 3][len(numbers) :]
            for seconds in (0.0, WAIT_SECONDS):
                compare(episodes, rounds, seconds)
