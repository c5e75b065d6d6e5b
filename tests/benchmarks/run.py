"""Prints how long the command line, a run and a check take; asserts nothing."""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.figures import show, sizes
from theatre.engine.schema_registry import resource_root

ECHELON = Path(sys.executable).with_name("echelon")
TEMPLATE = "fixtures/templates/product_cartograph_v1.json"
DEFAULT_RUNS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one process took, in seconds: itself and its waited-for children."""

    cpu: float
    wall: float


def cost_of(*arguments: str | Path, home: Path) -> Cost:
    """Run `echelon` once; its output goes nowhere."""
    began = time.perf_counter()
    with Path(os.devnull).open("wb") as nowhere:
        pid = os.posix_spawn(
            ECHELON,
            [str(ECHELON), *map(str, arguments)],
            {**os.environ, "ECHELON_HOME": str(home), "ECHELON_TRUST_HOME": str(home / "issuer")},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, nowhere.fileno(), 1),
                (os.POSIX_SPAWN_DUP2, nowhere.fileno(), 2),
            ],
        )
        _, status, usage = os.wait4(pid, 0)
    if status:
        raise RuntimeError(f"expected echelon {arguments} to succeed, got status {status}")
    return Cost(cpu=usage.ru_utime + usage.ru_stime, wall=time.perf_counter() - began)


def costs(runs: int, *arguments: str | Path, home: Path) -> list[Cost]:
    """Return what each of `runs` processes took, after one that warms the caches."""
    cost_of(*arguments, home=home)
    return [cost_of(*arguments, home=home) for _ in range(runs)]


def show_command_line(runs: int, home: Path) -> None:
    """Print what the start of the program takes."""
    measured = costs(runs, "--help", home=home)
    show("echelon --help, processor", [cost.cpu for cost in measured])
    show("echelon --help, wall clock", [cost.wall for cost in measured])


def show_run(runs: int, home: Path) -> Path:
    """Print what an episode takes; return a bundle."""
    template = resource_root() / TEMPLATE
    idle = min(cost.cpu for cost in costs(runs, "theatre", "hash", template, home=home))
    measured = costs(runs, "theatre", "run", template, "--quiet", home=home)
    bundle = next(home.glob("theatres/*/evidence_bundle_*"))
    total = json.loads((bundle / "certificate.json").read_bytes())["episode_counts"]["total"]
    show("Cartograph run, wall clock", [cost.wall for cost in measured])
    show("Cartograph run, processor", [cost.cpu for cost in measured])
    show("  an episode, processor", [(cost.cpu - idle) / total for cost in measured])
    return bundle


def show_check(runs: int, home: Path, bundle: Path) -> None:
    """Print what the independent check of a bundle takes."""
    measured = costs(runs, "check", bundle, home=home)
    show("echelon check, wall clock", [cost.wall for cost in measured])
    show("echelon check, processor", [cost.cpu for cost in measured])


def show_others() -> None:
    """Print what other programmes measure, each in a process of its own."""
    root = Path(__file__).parents[2]
    for name in (
        *("evidence_figures", "http_run", "axion_suite", "service_requests", "journal_writes"),
        *("log_figures", "log_costs"),
    ):
        sys.stdout.flush()
        subprocess.run([sys.executable, "-m", f"tests.benchmarks.{name}"], cwd=root, check=True)


def main() -> None:
    """Measure everything with as many repetitions as the caller asks for."""
    (runs,) = sizes(DEFAULT_RUNS)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        show_command_line(runs, home)
        bundle = show_run(runs, home)
        show_check(runs, home, bundle)
    show_others()


if __name__ == "__main__":
    main()
