"""`echelon pin`: from a draft to the full template, with every hash and version filled in."""

from pathlib import Path

import click

from theatre.api.draft_files import (
    describe,
    find_draft,
    pin_file,
    pinned_path,
    read_pinned,
    write_pinned,
)
from theatre.api.template_files import read_written
from theatre.api.workspace import Workspace
from theatre.cli.exits import echo, json_option, print_document
from theatre.drafts.errors import OutdatedPinError
from theatre.drafts.pinning import changes
from theatre.engine.canonical_json import JsonObject
from theatre.engine.commitment import CommitmentProtocol


@click.command()
@click.argument("draft", required=False, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where the template goes, in the folder of the draft.  [default: NAME.template.json]",
)
@click.option("--check", is_flag=True, help="Write nothing; fail where the template is outdated.")
@json_option
def pin(draft: Path | None, *, output: Path | None, check: bool, as_json: bool) -> None:
    """Compile DRAFT (echelon.yaml) into the template that is committed.

    It has the hash of each data file and the version of each construct, as they are now. With
    --check nothing is written: exit code 10 where the pinned template is another one, with what
    changed. For CI.
    """
    path = draft or find_draft(Path())
    written = read_written(path)
    if not written.is_draft:
        raise click.UsageError(
            f"expected a draft, got the template {path}: it is pinned already; run it with "
            f"`echelon run {path}`"
        )
    target = output or pinned_path(path)
    _refuse_elsewhere(path, target)
    template = pin_file(path, Workspace.from_environment(), written.document)
    changed = _check(template, path, target) if check else write_pinned(template, target)
    commitment_hash = CommitmentProtocol.hash_template(template)
    if as_json:
        print_document(
            {"template": str(target), "commitment_hash": commitment_hash, "changed": changed}
        )
        return
    echo(f"template    {target}")
    for line in changed or ["nothing changed"]:
        echo(f"            {line}")
    echo(f"commitment  {commitment_hash}")


def _refuse_elsewhere(path: Path, target: Path) -> None:
    """Refuse an output that is the draft itself, or in another folder than the draft."""
    if target.resolve() == path.resolve():
        raise click.UsageError(f"expected another file than the draft for -o, got {target}")
    if target.resolve().parent != path.resolve().parent:
        raise click.UsageError(
            f"expected -o in {path.resolve().parent}, got {target}: paths in a template begin at "
            "the folder that it lies in"
        )


def _check(template: JsonObject, path: Path, target: Path) -> list[str]:
    """Raise OutdatedPinError, with what changed, unless the pinned template is `template`."""
    changed = changes(read_pinned(target), template)
    if changed:
        raise OutdatedPinError(
            f"expected {target} to be what {path} gives now, got another template:\n"
            f"{describe(changed)}\npin it again: echelon pin {path}"
        )
    return []
