"""Two processes with other hash seeds write the same bytes, times aside."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = "from theatre.axion.cli import main; main()"


def run_suite(folder: Path, hash_seed: str, mode: str) -> None:
    options = {
        "agents": "honest,pseudo",
        "episodes": "4",
        "steps": "16",
        "seed": "123",
        "interface": mode,
        "watchdog_ms": "60000",
        "out_dir": str(folder),
    }
    arguments = [text for name, value in options.items() for text in (f"--{name}", value)]
    subprocess.run(
        [sys.executable, "-c", PROGRAM, "run_suite", *arguments],
        env={"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=True,
    )


def without_times(value: object) -> object:
    if isinstance(value, list):
        return [without_times(item) for item in value]
    if isinstance(value, dict):
        return {
            key: without_times(item)
            for key, item in value.items()
            if not key.startswith("wallclock_")
        }
    return value


@pytest.mark.parametrize("mode", ["full", "mci_latent"])
def test_a_suite_writes_the_same_bytes_twice(mode: str, tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder, hash_seed in zip(folders, ("1", "4242"), strict=True):
        run_suite(folder, hash_seed, mode)
    first, second = (
        {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
        for folder in folders
    )
    assert first.keys() == second.keys()
    assert {"audit_honest.log.jsonl", "audit_pseudo.log.jsonl"} <= first.keys()
    assert any(name.startswith("counterexamples") for name in first)
    timed = {"report.json", "summary.json"}
    for name in first.keys() - timed:
        assert first[name].read_bytes() == second[name].read_bytes(), name
    for name in timed:
        one, other = (json.loads(paths[name].read_bytes()) for paths in (first, second))
        assert json.dumps(without_times(one)) == json.dumps(without_times(other)), name
        assert one != without_times(one)
