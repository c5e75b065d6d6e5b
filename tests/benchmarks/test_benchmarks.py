"""The benchmarks of the service start, measure something, and leave nothing running."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.theatre.echelon_process import PATIENCE_SECONDS, REPOSITORY

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads processor time in /proc")


@pytest.mark.parametrize(
    ("programme", "expected"),
    [
        (
            "service_requests",
            [
                "GET /certificates/{id}/document",
                "GET /certificates/{id}",
                "GET /certificates?construct_id=",
                "GET /constructs/{id}/routing",
                "GET /theatres/{id}, by a token",
                "GET /theatres/{id}, by a key",
            ],
        ),
        ("journal_writes", ["PostgreSQL journal, episodes in batches of 100"]),
    ],
)
def test_a_benchmark_prints_a_line_for_each_figure(programme: str, expected: list[str]) -> None:
    # A request for each of its connections, or one batch; one round.
    smallest = "8" if programme == "service_requests" else "1"
    ended = subprocess.run(
        [sys.executable, "-m", f"tests.benchmarks.{programme}", smallest, "1"],
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=PATIENCE_SECONDS,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = [re.split(r"\s+max\s+", line)[0] for line in ended.stdout.splitlines()]
    assert lines == expected
