"""`echelon import`: a finished log as ground truth, or as a run that says it was imported."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from theatre.cli.exits import NamedPath, echo, json_option, print_document
from theatre.cli.tables import format_number, print_table
from theatre.engine.canonical_json import JsonObject
from theatre.engine.templates import construct_id_of
from theatre.harness.folder import TEMPLATE, write_folder
from theatre.harness.inspect_log import read_inspect_log
from theatre.harness.promptfoo_results import read_promptfoo_results
from theatre.harness.rows import Columns, read_rows
from theatre.harness.samples import HarnessLog, HarnessSample, reading
from theatre.scorers import load_scorers

KINDS = ("inspect", "promptfoo", "jsonl", "csv")


@click.command(name="import")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("log", type=NamedPath(dir_okay=False))
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="A new folder for what is written.",
)
@click.option("--ground-truth", is_flag=True, help="Write the dataset alone, without the answers.")
@click.option("--prompt", type=click.IntRange(0), help="promptfoo: the number of the prompt.")
@click.option("--id", "id_column", help="jsonl, csv: the column with the ids; else rows count.")
@click.option(
    "--input", "inputs", multiple=True, help="jsonl, csv: an input column; else the rest."
)
@click.option("--expected", multiple=True, help="jsonl, csv: a column with what is expected.")
@click.option(
    "--answer",
    "answers",
    multiple=True,
    metavar="EXPECTED=COLUMN",
    help="jsonl, csv: the column with the answer to what is expected; any name, where nothing is.",
)
@click.option("--score", "scores", multiple=True, help="jsonl, csv: a column with a score, 0 to 1.")
@click.option("--construct", help="jsonl, csv: what answered; else the folder.")
@json_option
def import_(  # noqa: PLR0913  # one argument an option
    kind: str,
    log: Path,
    *,
    out: Path,
    ground_truth: bool,
    prompt: int | None,
    id_column: str | None,
    inputs: tuple[str, ...],
    expected: tuple[str, ...],
    answers: tuple[str, ...],
    scores: tuple[str, ...],
    construct: str | None,
    as_json: bool,
) -> None:
    """Import LOG, which another harness finished.

    The answers were there before any commitment, so a run of them says `evidence:imported` and is
    never above UNVERIFIED. With --ground-truth only the questions and expectations are taken, for
    a run of your own.
    """
    columns = Columns(
        inputs=inputs,
        expected=expected,
        answers=_pairs(answers, expected),
        scores=scores,
        episode_id=id_column,
    )
    named = construct or construct_id_of(out.resolve().name)
    found = _read(kind, log, prompt, columns, named, with_scores=not ground_truth)
    if not ground_truth and kind in {"jsonl", "csv"} and not (answers and (expected or scores)):
        raise click.UsageError(
            "expected --answer EXPECTED=COLUMN with --expected or --score, or --ground-truth: "
            "without an answer an episode has failed, whatever its score"
        )
    report = write_folder(found, out, load_scorers(), with_answers=not ground_truth)
    if as_json:
        print_document({"kind": kind, "folder": str(out), **report})
    else:
        _print(report, out, ground_truth=ground_truth)


def _pairs(words: tuple[str, ...], expected: tuple[str, ...]) -> dict[str, str]:
    pairs = dict(word.partition("=")[::2] for word in words)
    # Where a table has no expectations an answer needs a name of its own.
    known = {*expected} or pairs.keys()
    wrong = sorted(name for name, column in pairs.items() if name not in known or not column)
    if wrong:
        raise click.UsageError(
            f"expected --answer EXPECTED=COLUMN with an --expected column, got {', '.join(wrong)}"
        )
    return pairs


def _read(  # one argument an option
    kind: str, log: Path, prompt: int | None, columns: Columns, construct: str, *, with_scores: bool
) -> HarnessLog:
    what = f"{log} as {kind} writes it"
    with reading(what):
        if kind == "inspect":
            found = read_inspect_log(log, with_scores=with_scores)
        elif kind == "promptfoo":
            found = read_promptfoo_results(log, prompt=prompt, with_scores=with_scores)
        else:
            return read_rows(log, columns, is_csv=kind == "csv", construct=construct)

    def samples() -> Iterator[HarnessSample]:
        with reading(what):
            yield from found.samples()

    return replace(found, samples=samples)


def _print(report: JsonObject, out: Path, *, ground_truth: bool) -> None:
    document: Any = report
    echo(f"{document['samples']} samples of {document['harness'] or 'a table'}")
    if document["unanswered"] and not ground_truth:
        echo(f"{document['unanswered']} have no answer: they count 0 here, and may not count there")
    rows = [
        (
            one["measure"],
            format_number(one["reported"]),
            format_number(one["in_samples"]),
            format_number(one["recomputed"]),
            f"{one['differing']} ({', '.join(one['examples'])})" if one["differing"] else "0",
            one["scorer"] or "none: only the harness computed it",
        )
        for one in document["measures"]
    ]
    if rows and not ground_truth:
        header = ("measure", "reported", "in samples", "recomputed", "differing", "scorer of ours")
        print_table(header, rows)
    for name in document["files"]:
        echo(f"wrote  {out / name}")
    if ground_truth:
        echo(f"sha256 {document['dataset_sha256']}, for dataset_hashes of your template")
    else:
        echo(f"next   echelon theatre run {out / TEMPLATE}")
