"""The benchmarks start, measure something, and leave nothing running."""

import re
import subprocess
import sys

import pytest

from tests.theatre.echelon_process import PATIENCE_SECONDS, REPOSITORY

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads processor time in /proc")


SAME_JOB = REPOSITORY / "fixtures" / "harness" / "same_job"
JOBS = {
    "a function": (("function_task.py",), ("function.yaml", "adder.py")),
    "a model": (("model_task.py",), ("model.yaml",)),
}
"""Job → its files as a task of inspect_ai and as a draft of ours."""
FIGURE = re.compile(r"\s+m(?:ax|in)\s+|\s{2,}")
OF_A_RUN = [
    "the same without the self-check",
    "the self-check",
    "a call of the run's client alone",
    "the ratio",
    "a bare call, bytes out and in",
    "the ratio",
]
OF_A_DEBATE = [
    "strict parser alone",
    "read: parser, models, every rule",
    "evaluator crit",
    "evaluator rca",
    "evaluator t3",
    "evaluator pid",
    "extension of itself",
]
OF_A_DOCUMENT = [
    "rfc8785",
    "canonical_bytes",
    "json, sorted (not RFC 8785)",
    "orjson, sorted (not RFC 8785)",
]


@pytest.mark.parametrize(
    ("programme", "smallest", "expected"),
    [
        (
            "data_audit",
            "8 1",
            ["8 inputs of 1013 bytes", "data audit, engine", "data audit, check"],
        ),
        (
            "proof_check",
            "50",
            ["the proofs, echelon check", "the proofs, verify_bundle.py", "the same with openssl"],
        ),
        (
            "evidence_figures",
            "8 1",
            [
                "an episode over HTTP, of 8",
                "not counted, not checked",
                "echelon check of 8 episodes",
                "peak of a run of 2",
                "peak of a run of 8",
                "not counted, not checked",
                "peak of its check",
                "certificate",
                *OF_A_DOCUMENT,
                "invocation record",
                *OF_A_DOCUMENT,
                "export",
                *OF_A_DOCUMENT,
                "50,000 fractions",
                *OF_A_DOCUMENT,
            ],
        ),
        (
            "service_requests",
            # A request for each of its connections; one round.
            "8 1",
            [
                "GET /certificates/{id}/document",
                "GET /certificates/{id}",
                "GET /c/{id}, a page",
                "GET /certificates/{id}/badge.svg",
                "GET /badge/{construct_id}.svg",
                "GET /certificates?construct_id=",
                "GET /constructs/{id}/routing",
                "GET /theatres/{id}, by a token",
                "GET /theatres/{id}, by a key",
            ],
        ),
        (
            "log_figures",
            "64 16",
            [
                "append, folder, durable",
                "proof of inclusion, folder",
                "its check, signature too",
                "proof of consistency, folder",
                "append, tiles and checkpoint in memory",
                "echelon log export",
                "echelon monitor, from nothing",
                "echelon monitor, nothing new",
            ],
        ),
        (
            "log_costs",
            "8 1 3",
            [
                "a run of 8 episodes without a log",
                "the same, logged and closed",
                "the log's writer, processor",
                "the same of a run",
                "all that the log takes of a run, processor",
                "the same of a run",
                "until the first call",
                "signed, closed and proved, processor",
                "its place in the record",
                "wait for the checkpoint, wall clock",
                "signed, closed and proved, wall clock",
                "all of it, in a log of 3 entries",
                "the same of a run",
                "loaded for the log, once a process",
                "loaded to sign a certificate, once",
            ],
        ),
        (
            "log_waits",
            # Quantiles are of two waits at least, so none are printed.
            "1 1 1",
            [
                "the first wait of a process",
                "a run of 1 episodes, processor",
                "the log's writer meanwhile",
                "the same of the run",
            ],
        ),
        ("journal_writes", "1 1", ["PostgreSQL journal, episodes in batches of 100"]),
        (
            "axion_suite",
            "1 2",
            [
                "axion suite, wall clock",
                "axion suite, processor, children too",
                "axion suite, steps a second",
            ],
        ),
        (
            "debate_artefact",
            "20 1",
            [
                "posthoc: 20 turns, 0 attempts, 0.0 MB",
                *OF_A_DEBATE,
                "in_loop: 20 turns, 55 attempts, 0.2 MB",
                *OF_A_DEBATE,
            ],
        ),
        (
            "http_run",
            "8 1 8",
            [
                "episode, one after another",
                *OF_A_RUN,
                "episode, 16 at a time",
                *OF_A_RUN,
                "episode, 16 at a time, sanitised",
                *OF_A_RUN,
                "peak of memory, 2 episodes",
                "peak of memory, 8 episodes",
                "peak of memory, 8 episodes, unchecked",
                "of four times the episodes",
                "the self-check, as a ratio",
            ],
        ),
    ],
)
def test_a_benchmark_prints_a_line_for_each_figure(
    programme: str, smallest: str, expected: list[str]
) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", f"tests.benchmarks.{programme}", *smallest.split()],
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=PATIENCE_SECONDS,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    names = [FIGURE.split(line.strip())[0] for line in ended.stdout.splitlines()]
    assert names == expected


def lines_of(names: tuple[str, ...]) -> list[int]:
    """Return lines and characters of files, without blank lines, comments and indentation."""
    texts = [(SAME_JOB / name).read_text(encoding="utf-8") for name in names]
    said = [line.strip() for text in texts for line in text.splitlines()]
    kept = [line for line in said if line and not line.startswith("#")]
    return [len(kept), sum(map(len, kept))]


def test_the_lengths_of_the_same_jobs_are_those_of_the_page() -> None:
    page = (REPOSITORY / "tests" / "benchmarks" / "README.md").read_text(encoding="utf-8")
    for job, programs in JOBS.items():
        (row,) = (line for line in page.splitlines() if line.startswith(f"| {job} |"))
        said = [[int(one) for one in re.findall(r"\d+", cell)] for cell in row.split("|")[2:4]]
        assert said == [lines_of(names) for names in programs]
