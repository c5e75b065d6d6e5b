"""`echelon qualify`: a measure against claims whose truth is known, signed."""

from __future__ import annotations

import asyncio
import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from theatre.api.errors import UsageError
from theatre.api.judge import PROVIDERS
from theatre.api.workspace import Workspace
from theatre.cli.exits import echo, json_option, print_document
from theatre.engine.canonical_json import JsonObject, canonical_sha256, parse_object, sha256_hex
from theatre.engine.clock import format_rfc3339
from theatre.engine.errors import UnknownScorerError
from theatre.engine.models import Scorer

if TYPE_CHECKING:
    from theatre.providers import ProviderKind
    from theatre.verification.labelled_claims import LabelledClaims

_PARAMS: dict[str, JsonObject] = {
    "lexical_precision": {"field": "key_claims", "diff": "record.diff_content"},
    "llm_judge": {"measure": "precision", "field": "key_claims", "record": "record"},
}
"""As `echelon verify` commits them for claims; the judge's model comes with its options."""


@click.command()
@click.argument("measure")
@click.option(
    "--labelled",
    type=click.Path(path_type=Path),
    multiple=True,
    required=True,
    help="A file of changes or of claims, or a folder of such files; as often as needed.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="Where to write the qualification; its signature is written next to it.",
)
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.5,
    show_default=True,
    help="From which score on a claim counts as supported: said before any label is looked at.",
)
@click.option("--params", help="The criterion's parameters as JSON, as a template commits them.")
@click.option(
    "--provider",
    "kind",
    type=click.Choice([*PROVIDERS]),
    default="anthropic",
    show_default=True,
    help="Whose interface a model that judges speaks: Messages, or OpenAI's chat completions.",
)
@click.option(
    "--model",
    help="The model that judges, where the measure is a judge.  "
    f"[default: {PROVIDERS['anthropic'].model} of anthropic]",
)
@json_option
def qualify(
    measure: str,
    *,
    labelled: tuple[Path, ...],
    out: Path,
    threshold: float,
    params: str | None,
    kind: ProviderKind,
    model: str | None,
    as_json: bool,
) -> None:
    """Ask MEASURE, the name of a scorer, about labelled claims, and sign how often it is right.

    The exit code says nothing about the result: a measure that does not qualify is a result, too.
    """
    from theatre.api.qualifications import (  # noqa: PLC0415 - --help is quick
        exchange_lines,
        exchanges_path,
        read_labelled_files,
        write_qualification,
    )
    from theatre.engine.scoring.qualification import qualification_document  # noqa: PLC0415 - the same
    from theatre.files.durable import replace_durably  # noqa: PLC0415 - the same
    from theatre.scorers import load_scorers  # noqa: PLC0415 - the same
    from theatre.verification.labelled_claims import score_claims, usage_of_exchanges  # noqa: PLC0415 - the same

    workspace = Workspace.from_environment()
    scorers = load_scorers()
    if measure not in scorers:
        raise UnknownScorerError(f"expected an installed scorer, got {measure!r:.100}")
    scorer = scorers[measure]
    chosen = _params(scorer, params, kind, model, workspace)
    stated: JsonObject = {
        "scorer": scorer.name,
        "version": scorer.version,
        "kind": scorer.kind.value,
        "params": chosen,
        "threshold": threshold,
    }
    claims = read_labelled_files(labelled)
    usage = digest = exchanges = None
    if scorer.judgement is not None:
        exchanges = asyncio.run(_ask(claims, scorer, chosen, workspace))
        lines = exchange_lines(exchanges)
        usage, digest = usage_of_exchanges(exchanges), sha256_hex(lines)
        replace_durably(exchanges_path(out), lines)
    now = datetime.now(UTC)
    document = qualification_document(
        stated,
        score_claims(claims, scorer, chosen, exchanges),
        texts_sha256=claims.texts_sha256,
        usage=usage,
        exchanges_sha256=digest,
        issuer=workspace.issuer,
        qualified_at=format_rfc3339(now),
    )
    kid = write_qualification(out, document, workspace.issuer, now)
    sha256 = canonical_sha256(document)
    if as_json:
        shown = {name: value for name, value in document.items() if name != "rows"}
        print_document({"out": str(out), "sha256": sha256, "kid": kid, **shown})
        return
    _print(document)
    echo(f"sha256              {sha256}")
    echo(f"written             {out}")


def _params(
    scorer: Scorer, given: str | None, kind: ProviderKind, model: str | None, workspace: Workspace
) -> JsonObject:
    """Return the parameters of the measure; UsageError where they do not fit it."""
    from theatre.api.judge import committed_by  # noqa: PLC0415
    from theatre.engine.schema_registry import SchemaRegistry  # noqa: PLC0415
    from theatre.verification.judge.questions import RUBRICS  # noqa: PLC0415
    from theatre.verification.judge.scorer import probe  # noqa: PLC0415

    if given is None and scorer.name not in _PARAMS:
        raise UsageError(f"expected --params for {scorer.name}, got none")
    if given is not None:
        chosen = parse_object(given.encode())
    else:
        chosen = copy.deepcopy(_PARAMS[scorer.name])
        if scorer.judgement is not None:
            named = model or PROVIDERS[kind].model
            if named is None:
                raise UsageError(f"expected --model with --provider {kind}, got none")
            chosen["judge"] = asyncio.run(
                committed_by(RUBRICS, probe, kind, named, workspace=workspace)
            )
    wrong = SchemaRegistry().validate_inline(scorer.params_schema, chosen)
    if wrong:
        raise UsageError(f"expected parameters of {scorer.name}: {wrong[0].detail}")
    return chosen


async def _ask(
    claims: LabelledClaims, scorer: Scorer, params: JsonObject, workspace: Workspace
) -> dict[str, list[JsonObject]]:
    from theatre.api.judge import open_judges  # noqa: PLC0415
    from theatre.verification.labelled_claims import ask_about_claims  # noqa: PLC0415

    async with open_judges([params], workspace) as judge:
        return await ask_about_claims(claims, scorer, params, judge)


def _print(document: JsonObject) -> None:
    shown: dict[str, Any] = document
    measure = shown["measure"]
    echo(f"measure             {measure['scorer']}@{measure['version']}")
    echo(f"threshold           {measure['threshold']}")
    for name in ("sensitivity", "specificity", "false_support_rate", "false_refusal_rate",
                 "balanced_accuracy"):  # fmt: skip
        echo(f"{name:19} {_share(shown[name])}")
    for kind, found in shown["by_kind"].items():
        echo(f"  {kind:17} wrong {_share(found['error_rate'])} of {found['claims']}")
    told = "yes" if shown["qualified"] else f"no: the lower bound is not {shown['minimum']}"
    echo(f"qualified           {told}")


def _share(found: JsonObject) -> str:
    value, low, high = (cast("float | None", found[name]) for name in ("value", "low", "high"))
    if value is None:
        return "-"
    return f"{value:.3f}" + ("" if low is None or high is None else f" [{low:.3f}, {high:.3f}]")
