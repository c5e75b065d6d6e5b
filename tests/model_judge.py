"""Asks a real model to judge labelled claims, next to a scorer of words: a part of `make models`.

Both are asked about the same claims by `echelon qualify`. A small model on a busy machine takes
a minute a claim, so CLAIMS of the 600 are asked, drawn by the hash of their ids; with
`--claims 600` all are, and nothing is packed. The endpoint is that of `tests.models`.
"""

import argparse
import contextlib
import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.models import NAME, PORT, server, short, succeeded, write_rows
from tests.sealed_evidence import JUDGE, ROOT, archive_of, of_others, pack, sealed_document
from tests.theatre.echelon_process import echelon
from theatre.engine.canonical_json import JsonObject
from theatre.verification.judge.scorer import committed_judge

LABELLED = ROOT / "fixtures" / "labelled" / "changes"
CLAIMS = 10
MAX_TOKENS = 96
"""Room for two verdicts, however they are indented; the answer about one claim has exactly one."""
MEASURES = ("lexical_precision", "llm_judge")


def write_labelled(folder: Path, count: int) -> None:
    """Write that many claims of the shipped set, and the changes that they are about."""
    folder.mkdir(parents=True)
    claims, changes = (rows_of(one) for one in ("claims", "changes"))
    claims.sort(key=lambda row: hashlib.sha256(row["claim_id"].encode()).digest())
    shown = {row["change_id"] for row in claims[:count]}
    drawn = {
        "claims": claims[:count],
        "changes": [row for row in changes if row["change_id"] in shown],
    }
    for name, rows in drawn.items():
        text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")


def rows_of(name: str) -> list[dict[str, Any]]:
    """Return the rows of both halves of the shipped set."""
    return [
        json.loads(line)
        for half in "ab"
        for line in (LABELLED / f"{name}_{half}.jsonl").read_bytes().splitlines()
    ]


def judge_params(model: str) -> JsonObject:
    """Return what `echelon qualify` commits of a judge, but for the length of an answer."""
    judge = committed_judge(model, temperature=0, repeats=1, provider="openai")
    asked = {"measure": "precision", "field": "key_claims", "record": "record"}
    return {**asked, "judge": judge | {"max_tokens": MAX_TOKENS}}


def qualify(folder: Path, measure: str, url: str, model: str) -> None:
    """Qualify a measure by the claims in `folder`; what comes of it lies there, but no signature.

    Its key goes with the temporary folder, so it would say nothing.
    """
    asked = ("--provider", "openai", "--params", json.dumps(judge_params(model)))
    options = asked if measure == "llm_judge" else ()
    out = folder / f"{measure}.json"
    told = ("--labelled", folder / "labelled", "-o", out, "--json")
    more = {"OPENAI_BASE_URL": url} | {
        name: os.environ[name] for name in ("OPENAI_API_KEY",) if name in os.environ
    }
    home = folder.parent / "home"
    succeeded(echelon("qualify", measure, *options, *told, home=home, more=more, patience=86_400))
    out.with_suffix(".sigstore.json").unlink()


def row(document: dict[str, Any]) -> str:
    """Return the row of the page for a qualification."""
    measure, counts = document["measure"], document["counts"].values()
    judge = measure["params"].get("judge")
    name = f"`{measure['scorer']}`" + (f", {judge['model']}" if judge else "")
    found = document["balanced_accuracy"]
    interval = f"{found['low']:.3f} … {found['high']:.3f}"
    shares = " | ".join(f"{document[one]['value']:.3f}" for one in ("sensitivity", "specificity"))
    unusable = sum(one["unusable"] for one in counts)
    word = "yes" if document["qualified"] else "no"
    return f"| {name} | {unusable} | {shares} | {found['value']:.3f} | {interval} | {word} |\n"


def main(arguments: list[str]) -> int:
    """Qualify the judge and the scorer of words; print and, for the small model, keep it."""
    parser = argparse.ArgumentParser(prog="python -m tests.model_judge", description=__doc__)
    parser.add_argument("--claims", type=int, default=CLAIMS, help="how many of the 600 are asked")
    count = parser.parse_args(arguments).claims
    url, model = (os.environ.get(f"ECHELON_MODELS_{one}") for one in ("URL", "MODEL"))
    with tempfile.TemporaryDirectory(prefix="echelon-judge-") as temporary:
        name = f"{JUDGE}_{short(model)}" if url else JUDGE
        folder = Path(temporary) / name
        write_labelled(folder / "labelled", count)
        with contextlib.nullcontext() if url else server():
            for measure in MEASURES:
                qualify(folder, measure, url or f"http://127.0.0.1:{PORT}/v1", model or NAME)
        documents = [json.loads((folder / f"{one}.json").read_bytes()) for one in MEASURES]
        rows = "".join(map(row, documents))
        sys.stdout.write(f"{rows}{json.dumps(documents[-1]['usage'])}\n")
        if count == CLAIMS:
            pack(folder, name)
            write_rows(r"l\w+_(?:precision|judge)`", table())
            sys.stdout.write(f"{archive_of(name).name}: packed anew, read the page again\n")
    return 0


def table() -> str:
    """Return the rows of the page: the scorer of words, and each judge."""
    judges = [sealed_document(one, f"{MEASURES[1]}.json") for one in (JUDGE, *of_others(JUDGE))]
    return "".join(map(row, [sealed_document(JUDGE, f"{MEASURES[0]}.json"), *judges]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
