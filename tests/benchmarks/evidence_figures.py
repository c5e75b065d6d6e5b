"""Prints what evidence costs, side by side: canonical JSON, a run and its check; asserts nothing.

`python -m tests.benchmarks.evidence_figures [EPISODES] [ROUNDS]` runs a theatre of EPISODES trivial
episodes over HTTP, one call each, ROUNDS times, each in a process of its own, and one of a quarter
of them; checks each bundle with `echelon check`; and writes its documents by `rfc8785`, by `json`
and by the engine, in turns. All times are processor time. With `run FOLDER EPISODES` it is such a
run, with `bare FOLDER EPISODES` one without data audit, baselines and self-check, with
`check FOLDER` the check of what a run left.
"""

import asyncio
import contextlib
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import chain, cycle, islice
from pathlib import Path

import orjson
import rfc8785

from tests.benchmarks.figures import peak_of_memory, say, seconds_of, show, sizes
from tests.benchmarks.http_run import MODES, check_replaced
from tests.benchmarks.trivial_theatre import commit, construct, run
from theatre.cli import cli
from theatre.cli.exits import ExitCode, run_guarded
from theatre.engine.bundle_check import CheckReport
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, parse_json
from theatre.engine.evidence_bundle import EvidenceBundleBuilder
from theatre.engine.replay import settlement

EPISODES = 20_000
ROUNDS = 5
EXPORT_BYTES = 5_000_000
SERIES_BYTES = 4_000_000
"""How much canonical JSON a measurement writes: each document as often as that takes."""

SORTED = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
WRITERS: dict[str, Callable[[JsonValue], object]] = {
    "rfc8785": rfc8785.dumps,
    "canonical_bytes": canonical_bytes,
    "json, sorted (not RFC 8785)": SORTED,
    "orjson, sorted (not RFC 8785)": lambda value: orjson.dumps(value, None, orjson.OPT_SORT_KEYS),
}


def bundle_in(folder: Path) -> Path:
    """Return the sealed bundle of the run whose folder this is."""
    (bundle,) = folder.glob("**/evidence_bundle_*")
    return bundle


def run_once(folder: Path, episodes: int) -> float:
    """Run a theatre; return its seconds."""
    with construct() as url:
        store, theatre_id = commit(folder, episodes, MODES[0])
        return seconds_of(lambda: asyncio.run(run(store, theatre_id, url)))


class Uncounted:
    """Stands for the counts of a run, without counting."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def add(self, *_: object) -> None:
        """Leave an episode out."""

    def close(self) -> None:
        """Close nothing."""

    def write(self, builder: EvidenceBundleBuilder, _: object) -> tuple[JsonObject, JsonObject]:
        """Write both documents as if there had been nothing to count."""
        none = ("empty", "copied", "most_frequent", "other_episode")
        counts = ("distinct_inputs", "distinct_scored_inputs", "near_duplicates")
        criterion: JsonObject = {"distinct_inputs": 0, "expectations": 0, "majority_share": None}
        audit: JsonObject = {
            **dict.fromkeys(("episodes", *counts, "answers_in_inputs", "clusters"), 0),
            "criteria": {"answer": criterion},
        }
        unmade: JsonObject = {"not_applicable": "judged", **dict.fromkeys(none)}
        baselines: JsonObject = {"episodes": 0, "criteria": {"answer": unmade}}
        builder.write_document("scores/data_audit.json", audit)
        builder.write_document("scores/baselines.json", baselines)
        return audit, baselines

    def dealt(self) -> dict[str, float]:
        """Deal no answer."""
        return {}


def run_bare(folder: Path, episodes: int) -> float:
    """Run a theatre without data audit, baselines and self-check; return its seconds."""
    setattr(settlement, "DistinctEvidence", Uncounted)  # noqa: B010 - it is imported there
    with check_replaced(lambda *_, **__: CheckReport(checks=())):
        return run_once(folder, episodes)


def check_once(folder: Path) -> float:
    """Check the bundle of a run as `echelon check` does; return the seconds of this process."""
    with contextlib.redirect_stdout(io.StringIO()) as report:
        code = run_guarded(cli, ["check", str(bundle_in(folder))])
    if code != ExitCode.OK:
        raise RuntimeError(f"expected a bundle that passes its check, got {report.getvalue()}")
    return time.process_time()


def in_process(*arguments: object) -> tuple[float, float]:
    """Return the seconds that a new process with these arguments measures, and its peak in MB."""
    command = [sys.executable, "-m", "tests.benchmarks.evidence_figures", *map(str, arguments)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    seconds, peak = map(float, ended.stdout.split())
    return seconds, peak


def show_runs(episodes: int, rounds: int, folder: Path) -> None:
    """Print what an episode costs, and the check of all of them, a run and its check in turns."""
    few = max(1, episodes // 4)
    runs, bare, checks = [], [], []
    for number in range(rounds):
        runs.append(in_process("run", folder / str(number), episodes))
        bare.append(in_process("bare", folder / f"bare {number}", episodes))
        checks.append(in_process("check", folder / str(number)))
    small = in_process("run", folder / "few", few)
    show(f"an episode over HTTP, of {episodes}", [seconds / episodes for seconds, _ in runs])
    show("  not counted, not checked", [seconds / episodes for seconds, _ in bare])
    show(f"echelon check of {episodes} episodes", [seconds for seconds, _ in checks])
    for name, measured in (
        (f"peak of a run of {few}", [small]),
        (f"peak of a run of {episodes}", runs),
        ("  not counted, not checked", bare),
        ("peak of its check", checks),
    ):
        peaks = [peak for _, peak in measured]
        say(name, f"min {min(peaks):9.1f} MB   max {max(peaks):9.1f} MB")


def documents(bundle: Path) -> dict[str, JsonValue]:
    """Return what is written: documents of a bundle, an export made of them, and bare numbers."""
    files = sorted((bundle / "invocations").iterdir())
    raw = list(chain.from_iterable(file.read_bytes().splitlines() for file in files))
    count = EXPORT_BYTES // (sum(map(len, raw)) // len(raw))
    return {
        "certificate": parse_json((bundle / "certificate.json").read_bytes()),
        "invocation record": parse_json(raw[0]),
        "export": [parse_json(line) for line in islice(cycle(raw), count)],
        "50,000 fractions": [number / 65_521 for number in range(50_000)],
    }


def show_canonical_json(bundle: Path, rounds: int) -> None:
    """Print what each writer takes for each document, the writers in turns."""
    for name, document in documents(bundle).items():
        size = len(canonical_bytes(document))
        times = max(1, SERIES_BYTES // size)
        series: dict[str, list[float]] = {writer: [] for writer in WRITERS}
        for _ in range(rounds):
            for writer, write in WRITERS.items():
                began = time.process_time()
                for _ in range(times):
                    write(document)
                series[writer].append((time.process_time() - began) / times)
        say(name, f"    {size:9,} bytes")
        reference = min(series["rfc8785"])
        for writer, seconds in series.items():
            best = min(seconds)
            rate = f"{size / best / 1e6:7.0f} MB/s   {reference / best:6.1f} times rfc8785"
            say(f"  {writer}", f"min {best * 1000:9.4f} ms   {rate}")


def main() -> None:
    """Measure everything, at the sizes that the caller asks for, or one run or check."""
    if sys.argv[1:2] in (["run"], ["bare"], ["check"]):
        folder, kind = Path(sys.argv[2]), sys.argv[1]
        runs = {"run": run_once, "bare": run_bare}
        once = check_once(folder) if kind == "check" else runs[kind](folder, int(sys.argv[3]))
        sys.stdout.write(f"{once} {peak_of_memory()}\n")
        return
    episodes, rounds = sizes(EPISODES, ROUNDS)
    with tempfile.TemporaryDirectory() as name:
        show_runs(episodes, rounds, Path(name))
        show_canonical_json(bundle_in(Path(name) / "0"), rounds)


if __name__ == "__main__":
    main()
