"""`run`, `pin`, `check` and `validate`, as `from theatre import …` has them.

They import what does the work when they are called: who has imported them has waited for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from theatre.api.errors import Requirement, UsageError, require_verdict
from theatre.api.results import Episode, Run, Validation
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import NotFoundError

if TYPE_CHECKING:
    from theatre.engine.bundle_check import CheckReport
    from theatre.engine.replay import Progress
    from theatre.files.datasets import DatasetRoots
    from theatre.files.theatre_store import TheatreView


def run(
    template: str | Path | Mapping[str, object],
    *,
    store: str | Path | None = None,
    construct: Callable[..., object] | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
    rehearsal: bool = False,
    new: bool = False,
    concurrency: int | None = None,
    headers_env: Mapping[str, str] | None = None,
) -> Run:
    """Run a template to its certificate, and return what came of it.

    `template` is a file, of a template or a draft, a document whose data paths begin in the current
    folder, or the id of a theatre. What is unfinished goes on where it stopped, unless `new`.
    `store` is the folder for theatres, in place of ECHELON_HOME. `construct` is a callable at the
    top of a module, to be run in place of what the template names: its module is copied, hashed,
    isolated and called as the adapter `python` does, and its version is committed. `on_progress`
    gets what was done and how much there is. `rehearsal` keeps nothing, logs nothing and certifies
    nothing. `concurrency` calls come at most at a time, where the template commits to more.
    `headers_env` are request headers and the variables that hold their values.

    What a run comes to is in its result: look at `outcome`. Raises TheatreError for what did not
    get so far: InvalidTemplateError, NotFoundError, UsageError, DatasetError,
    ConstructUnreachableError and more, each with a stable `code`. InterruptedRunError on Ctrl-C:
    every answer that was in is recorded, and the same call goes on.
    """
    from theatre.api import runs
    from theatre.api.callables import with_callable
    from theatre.api.rehearsal import rehearse_document
    from theatre.api.template_files import open_template
    from theatre.api.theatre_run import RunOptions
    from theatre.api.workspace import Workspace

    if concurrency is not None and concurrency < 1:
        raise UsageError(f"expected concurrency of 1 or more, got {concurrency}")
    workspace = Workspace.from_environment()
    # Absolute: episodes are read when they are asked for, from another folder perhaps.
    workspace = replace(workspace, home=Path(store or workspace.home).absolute())
    options = RunOptions(concurrency_limit=concurrency, headers_env=headers_env or {})
    if not isinstance(template, Mapping) and not Path(template).is_file():
        if construct is not None or rehearsal:
            raise NotFoundError(f"expected a template file, got {str(template)!r:.200}")
        theatre_id = runs.find_or_commit_theatre(str(template), workspace, new=new)
    else:
        document, folder = open_template(template)
        if construct is not None:
            document, code = with_callable(document, construct)
            workspace = replace(workspace, code_folder=code)
        if rehearsal:
            return rehearse_document(document, folder, workspace, options, on_progress)
        theatre_id = runs.go_on_or_commit(document, folder, workspace, new=new)
    runs.run_to_end(theatre_id, workspace, options, on_progress)
    view = workspace.store.view(theatre_id)
    roots = workspace.datasets_for(view.template_folder)
    return Run.settled(runs.run_report(view), partial(_read_theatre, view, roots))


def _read_theatre(view: TheatreView, roots: DatasetRoots) -> Iterator[Episode]:
    """Read a run's episodes; by its name, so that a `Run` can go to another process."""
    from theatre.api.episodes import read_run
    from theatre.files.recorded_run import recorded_run

    return read_run(recorded_run(view, roots))


def pin(draft: str | Path | Mapping[str, object]) -> JsonObject:
    """Return the full template of a draft, with each hash and version as the files give them now.

    `draft` is a file, or a document whose paths begin in the current folder. Nothing is written.
    Raises DraftError, with everything that is wrong, NotFoundError and ParseError, and UsageError
    for a template: that one is pinned already.
    """
    from theatre.api.draft_files import pin_file
    from theatre.api.template_files import as_written
    from theatre.api.workspace import Workspace

    written, path = as_written(draft)
    if not written.is_draft:
        raise UsageError(f"expected a draft, got the template {path}: it is pinned already")
    return pin_file(path, Workspace.from_environment(), written.document)


def check(
    path: str | Path,
    *,
    certificate: str | Path | None = None,
    verification: str | Path | None = None,
    labelled: Sequence[str | Path] = (),
    trust: str | Path | None = None,
    policy: str | Path | None = None,
    online: bool = False,
    require: Requirement | None = None,
) -> CheckReport:
    """Recompute everything in an evidence bundle from the bundle alone, and check its proofs.

    Where `path` is the file of a qualification, that is counted again, and measured again where
    `labelled` are the files of its labelled set.

    `certificate` is the certificate as its issuer gave it, a file outside the bundle,
    `verification` a verification certificate to be made again. `trust` is the issuer's trust.json,
    `policy` the logs and witnesses asked for in place of its own. `online` asks the log, too.

    Raises VerdictError where `require` is not reached, NotFoundError for a missing file,
    UsageError for arguments that do not fit. Without `require` look at `verdict`: a report is
    returned whatever was found.
    """
    from theatre.api.bundle_proofs import read_reader
    from theatre.api.checks import add_verification_check, check_folder

    bundle = Path(path)
    if policy is not None and trust is None:
        raise UsageError("expected --trust with --policy: a policy names no issuer")
    reader = None
    if trust is not None:
        reader = read_reader(Path(trust), None if policy is None else Path(policy), bundle)
    if bundle.is_file() and b'"labelled_set"' in bundle.read_bytes():
        from theatre.api.qualifications import check_qualification, read_labelled_files
        from theatre.scorers import load_scorers

        claims = read_labelled_files(map(Path, labelled)) if labelled else None
        report = check_qualification(bundle, load_scorers(), labelled=claims, reader=reader)
    elif labelled:
        raise UsageError("expected a qualification with --labelled, got something else")
    else:
        copy = None if certificate is None else Path(certificate)
        report = check_folder(bundle, certificate=copy, reader=reader, online=online)
        if verification is not None:
            report = add_verification_check(report, bundle, Path(verification))
    if require is not None:
        require_verdict(report, require)
    return report


def validate(template: str | Path | Mapping[str, object], *, rehearsal: bool = False) -> Validation:
    """Check a draft or a template against every rule, and look at its data and constructs.

    It is a file, or a document whose data begin in the current folder. With `rehearsal` it is taken
    as one that is not to be certified. Raises NotFoundError where there is no such file and
    ParseError for what is no strict JSON or YAML; what breaks a rule is in the result.
    """
    from theatre.api.template_files import as_written
    from theatre.api.validation import validate_written
    from theatre.api.workspace import Workspace

    written, path = as_written(template)
    return validate_written(written, path, Workspace.from_environment(), rehearsal=rehearsal)
