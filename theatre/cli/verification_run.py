"""Runs the verification in a folder, and prints the result, or how to go on."""

import asyncio
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import click

from theatre.api.checks import check_folder, format_verdict
from theatre.api.errors import InterruptedRunError
from theatre.api.named_files import read_file
from theatre.api.runs import find_or_commit_theatre, logged_report
from theatre.api.theatre_run import RunOptions
from theatre.api.workspace import CONSTRUCTS_FILE, Workspace, utc_now
from theatre.cli.exits import CommandEndedError, ExitCode, echo, print_document
from theatre.cli.inspect_command import print_measures
from theatre.cli.reports import print_run
from theatre.cli.run_command import run_with_progress
from theatre.cli.tables import format_number
from theatre.cli.verification_log import VerificationLog, replay_line
from theatre.engine.bundle_check import CheckReport
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.errors import TheatreError
from theatre.engine.models import EpisodeResult
from theatre.engine.scoring.arithmetic import rounded_number
from theatre.engine.scoring.provider import at_path
from theatre.engine.scoring.tallies import CriterionTally
from theatre.files.durable import replace_durably
from theatre.oracles.construct_registry import (
    RegisteredConstruct,
    RemoteConstruct,
    construct_version,
)
from theatre.oracles.endpoints import REGISTERED, ReachableAdapter, refuse_unused_headers
from theatre.oracles.errors import ConstructTransportError, ConstructUnreachableError
from theatre.oracles.in_process import construct_from_callable
from theatre.oracles.wire_forms import PLAIN_PIN, WireForm
from theatre.verification import version_probe
from theatre.verification.certificate import CERTIFICATE_FILE, verification_certificate
from theatre.verification.errors import NoVerificationError
from theatre.verification.provenance import require_built_in
from theatre.verification.template import CRITERIA, TEMPLATE_ID, OracleUnderTest
from theatre.verification.version_probe import NO_VERSION, ProbeResult

# The calls before the commitment, as the command line makes them.


def probe(service: RemoteConstruct, workspace: Workspace, *, seconds: float) -> ProbeResult:
    """Ask a service for its version: by an envelope, and if need be by a bare record.

    Raises ConstructUnreachableError for one that answers neither as an oracle does,
    or does not in so many seconds.
    """
    # Imported here: the client costs start-up time that a run of local programs need not pay.
    from theatre.api.http_adapters import make_http_adapter  # noqa: PLC0415  # see above

    def adapter_in(form: WireForm) -> ReachableAdapter:
        return make_http_adapter(service, workspace, form)

    try:
        return asyncio.run(
            version_probe.probe(service.construct_id, adapter_in, seconds=seconds, clock=utc_now)
        )
    except ConstructUnreachableError as error:
        raise ConstructUnreachableError(f"{error}; give --construct-version, or --plain") from error


# Which construct `--construct` names, how it is reached, and which version of it is pinned.


class NamedOracle(NamedTuple):
    """What the user says about the construct.

    `folder` is where a callable's module lies. `plain`: it is a service that knows no envelope.
    `timeout`, in seconds, is for the calls that ask for its version, as for every other.
    """

    place: str
    construct_type: str | None
    construct_id: str
    construct_version: str | None
    plain: bool
    folder: Path
    headers_env: Mapping[str, str]
    timeout: int

    @property
    def is_service(self) -> bool:
        """Say whether it is called by its URL."""
        if self.place.startswith(REGISTERED):
            return False
        if self.construct_type is not None:
            return self.construct_type == "http"
        return self.place.startswith(("http://", "https://"))


def oracle_under_test(
    named: NamedOracle, workspace: Workspace, run_folder: Path
) -> OracleUnderTest:
    """Return the construct with its pin; a callable is registered in `run_folder`.

    `construct:<id>` is a registered construct, `module:name` a Python callable, all else a URL. A
    version that is not given is computed for what runs here, and asked for elsewhere, by `probe`.
    Raises as the registry, the callable's finder, the adapter and `probe`, and
    ConstructTransportError for a program or callable that is to be spoken to plainly.
    """
    if named.is_service:
        service = RemoteConstruct(
            construct_id=named.construct_id, url=named.place, headers_env=named.headers_env
        )
        return _service(service, named, workspace, endpoint=named.place)
    refuse_unused_headers((), named.headers_env)
    if named.place.startswith(REGISTERED):
        registered_id = named.place.removeprefix(REGISTERED)
        construct = workspace.find_registered(registered_id, run_folder)
        if isinstance(construct, RemoteConstruct):
            return _service(construct, named, workspace, endpoint=named.place)
        return _program(construct, named)
    callable_ = construct_from_callable(named.construct_id, named.place, named.folder)
    _register(callable_, run_folder)
    return _program(callable_, named)


def _service(
    service: RemoteConstruct, named: NamedOracle, workspace: Workspace, *, endpoint: str
) -> OracleUnderTest:
    version, pin = named.construct_version, PLAIN_PIN if named.plain else None
    if version is None and not named.plain:
        probed = probe(service, workspace, seconds=named.timeout)
        version, pin = probed.version, probed.form.pin
    return OracleUnderTest(
        construct_id=service.construct_id,
        version=version or NO_VERSION,
        adapter_type="http",
        endpoint=endpoint,
        adapter_pin=pin,
    )


def _program(construct: RegisteredConstruct, named: NamedOracle) -> OracleUnderTest:
    if named.plain:
        raise ConstructTransportError(
            f"expected a service behind a URL for --plain, got {named.place:.100}: what runs here "
            "is given the record without an envelope anyway"
        )
    return OracleUnderTest(
        construct_id=construct.construct_id,
        version=named.construct_version or construct_version(construct),
        adapter_type="local" if construct.start_seconds is None else "http",
        endpoint=f"{REGISTERED}{construct.construct_id}",
    )


def _register(construct: RegisteredConstruct, run_folder: Path) -> None:
    """Write a callable into the run's own registry: the template then names no folder."""
    # A JSON string is a TOML string, and so is an array of them.
    lines = (
        f"[constructs.{construct.construct_id}]",
        f"argv = {json.dumps(list(construct.argv))}",
        f"folder = {json.dumps(str(construct.folder), ensure_ascii=False)}",
        f"files = {json.dumps(list(construct.files), ensure_ascii=False)}",
    )
    text = "".join(f"{line}\n" for line in lines)
    replace_durably(run_folder / CONSTRUCTS_FILE, text.encode())


TEMPLATE_FILE = "template.json"


class VerificationFolder(NamedTuple):
    """A folder with ground truth, dataset and template, and how its run is wanted.

    `headers_env` are request headers and the variables that hold their values.
    """

    run_folder: Path
    workspace: Workspace
    log: VerificationLog
    new: bool
    quiet: bool
    verbose: bool
    headers_env: Mapping[str, str]
    as_json: bool

    @property
    def minimum(self) -> int:
        """Return how many scored changes are committed to be needed.

        Raises NotFoundError and NoVerificationError for a folder that is none.
        """
        path = self.run_folder / TEMPLATE_FILE
        template = parse_object(read_file(path, what="the template of a verification"))
        minimum = at_path(template, "oracle_config.minimum_replays")
        if template.get("theatre_id") != TEMPLATE_ID or not isinstance(minimum, int):
            raise NoVerificationError(f"expected a template {TEMPLATE_ID} at {path}, got another")
        # Checked now, before any call is paid for.
        require_built_in(template)
        return minimum

    def resumption(self, *, new: bool = False) -> str:
        """Return the command that goes on with what lies here, or begins it anew."""
        headers = (f"{name}={variable}" for name, variable in self.headers_env.items())
        words = [
            *("echelon", "verify", "--resume", str(self.run_folder)),
            *(word for header in headers for word in ("--header", header)),
            *(["--new"] if new else []),
        ]
        return shlex.join(words)

    def verify(self) -> None:
        """Run the template to its end and print what came out.

        Raises CommandEndedError with the code that it earned, and errors as `run_to_end`.
        """
        minimum = self.minimum
        template = self.run_folder / TEMPLATE_FILE
        theatre_id = find_or_commit_theatre(str(template), self.workspace, new=self.new)
        self.log.log_event("run", theatre_id=theatre_id, folder=str(self.run_folder))
        if not self.quiet:
            click.echo(f"note: should this be stopped, go on with: {self.resumption()}", err=True)
        options = RunOptions(
            headers_env=self.headers_env, on_recorded=self._log_results, ends_with_construct=True
        )
        try:
            quiet = self.quiet or self.verbose
            run_with_progress(theatre_id, self.workspace, options, quiet=quiet)
        except (InterruptedRunError, ConstructUnreachableError) as stopped:
            self._print_stopped(theatre_id, stopped)
        self._conclude(logged_report(self.workspace.store.view(theatre_id)), minimum)

    def _log_results(self, results: Sequence[EpisodeResult]) -> None:
        self.log.log_replays(results)
        if self.verbose:
            for result in results:
                echo(replay_line(result), err=True)

    def _print_stopped(self, theatre_id: str, error: TheatreError) -> None:
        """Print the scores so far and how to go on; they are no result, and say so."""
        partial = asyncio.run(_scores_so_far(theatre_id, self.workspace))
        resumption = self.resumption()
        self.log.log_event("stopped", theatre_id=theatre_id, code=error.code, **partial)
        if self.as_json:
            failure = {"code": error.code, "message": str(error)}
            print_document(
                {"error": failure, "theatre_id": theatre_id, **partial, "go_on_with": resumption}
            )
        else:
            echo(f"error ({error.code}): {error}", err=True)
            _print_scores_so_far(partial)
            echo(f"go on with: {resumption}")
        raise CommandEndedError(ExitCode.INCOMPLETE) from error

    def _conclude(self, report: JsonObject, minimum: int) -> None:
        """Check the bundle, print what came out, and end with the code that it earns."""
        bundle = None if report["bundle_path"] is None else Path(str(report["bundle_path"]))
        check = None if bundle is None else check_folder(bundle)
        counts = cast("dict[str, int]", report["episode_counts"] or {})
        scored, not_run = counts.get("scored", 0), counts.get("not_run", 0)
        sound = bundle if check is not None and not check.failed else None
        issued = None
        if sound is not None and scored >= minimum:
            certificate = verification_certificate(sound)
            replace_durably(sound.parent / CERTIFICATE_FILE, certificate)
            issued = str(self.run_folder / CERTIFICATE_FILE)
            replace_durably(self.run_folder / CERTIFICATE_FILE, certificate)
        self._log_end(report, check, issued)
        self._print(report, check, issued)
        if check is not None and check.failed:
            raise CommandEndedError(ExitCode.CHECK_FAILED)
        if report["outcome"] != "certified":
            raise CommandEndedError(ExitCode.FAILURE)
        if scored < minimum:
            self._incomplete(
                f"{scored} changes were scored, {minimum} are asked for (--min-replays): this is "
                "no verification"
            )
        if not_run:
            self._incomplete(f"the run ended with {not_run} changes that were never shown")

    def _incomplete(self, why: str) -> None:
        click.echo(f"note: {why}; try again with: {self.resumption(new=True)}", err=True)
        raise CommandEndedError(ExitCode.INCOMPLETE)

    def _log_end(self, report: JsonObject, check: CheckReport | None, issued: str | None) -> None:
        logged = ("theatre_id", "outcome", "scores", "composite_score", "verification_tier", "caps")
        self.log.log_event(
            "ended",
            **{name: report[name] for name in logged},
            check_verdict=None if check is None else check.verdict.value,
            verification_certificate=issued,
        )

    def _print(self, report: JsonObject, check: CheckReport | None, issued: str | None) -> None:
        if self.as_json:
            counts = cast("JsonObject", report["episode_counts"] or {})
            print_document(
                {
                    **report,
                    "replay_count": counts.get("scored", 0),
                    "check": None
                    if check is None
                    else {
                        "verdict": check.verdict.value,
                        "valid": check.valid,
                        "checks": len(check.checks),
                    },
                    "verification_certificate": issued,
                }
            )
            return
        print_run(report)
        if report["bundle_path"] is not None:
            scores = cast("JsonObject", report["scores"])
            print_measures(is_judged=scores.keys() != set(CRITERIA))
        if check is not None:
            echo(f"check        {format_verdict(check)}")
        if issued is not None:
            echo(f"in short     {issued}")


def _print_scores_so_far(partial: JsonObject) -> None:
    echo(f"so far       {partial['recorded']} changes, no certificate")
    for criterion, score in cast("dict[str, float | None]", partial["scores_so_far"]).items():
        echo(f"             {criterion} {format_number(score)}")


async def _scores_so_far(theatre_id: str, workspace: Workspace) -> JsonObject:
    """Return the means over what is recorded, failures counted as 0."""
    tallies = {criterion: CriterionTally() for criterion in CRITERIA}
    recorded = 0
    with workspace.store.hold(theatre_id) as held:
        async for result in held.journal.results():
            recorded += 1
            for criterion, tally in tallies.items():
                tally.add(result.scores[criterion])
    means = {criterion: tally.mean for criterion, tally in tallies.items()}
    return {
        "recorded": recorded,
        "scores_so_far": {c: None if m is None else rounded_number(m) for c, m in means.items()},
    }
