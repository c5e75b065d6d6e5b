"""`echelon demo`: certify three theatres over HTTP, catch a forged bundle, stop everything."""

import contextlib
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from theatre.api.bundle_proofs import read_reader
from theatre.api.checks import check_folder
from theatre.api.template_files import read_template
from theatre.api.workspace import Workspace
from theatre.cli.certificate_report import shorten_path
from theatre.cli.demo.client import ServiceClient
from theatre.cli.demo.log_end import check_as_a_stranger, drop_run
from theatre.cli.demo.pages import (
    Pages,
    View,
    print_checks,
    print_fact,
    print_fork,
    print_stranger,
    print_verdicts,
)
from theatre.cli.demo.place import DemoPlace
from theatre.cli.demo.service import started_service, write_constructs
from theatre.cli.demo.stage import CLAIMED, Played, Stage
from theatre.cli.demo.theatres import Certified
from theatre.cli.exits import (
    CommandEndedError,
    ExitCode,
    json_option,
    print_document,
    require_extras,
)
from theatre.cli.pictures import draw_bundle
from theatre.cli.report_command import write_checked
from theatre.engine.bundle_check import Verdict
from theatre.engine.canonical_json import JsonObject
from theatre.engine.schema_registry import resource_root

TEMPLATES = {
    "cartograph": "product_cartograph_v1",
    "observer": "product_observer_v1",
    "easel": "product_easel_v1",
}
PAGES = 10
OPENING = "Three AI constructs are asked, scored and certified; a forged bundle is caught."


@click.command()
@click.option("--verbose", is_flag=True, help="Print every request, certificate and finding.")
@json_option
def demo(*, verbose: bool, as_json: bool) -> None:
    """Certify three shipped theatres over HTTP, one with human scores; catch a forged bundle.

    Starts `echelon serve` with a database of its own in ECHELON_HOME/demo, asks it as any client
    does, and stops it: nothing is left running. Two stand-ins, which are rules and named so, score
    where people are asked. With --json the pages go to stderr. Less than a minute. Whatever is
    printed, ECHELON_HOME/demo/pages.txt has all of it.
    """
    # A PostgreSQL that is on PATH serves as well.
    require_extras("service", *(() if shutil.which("postgres") else ("embedded",)))
    workspace = Workspace.from_environment()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_ended_by_sigterm_too())
        if as_json:
            # A person who waits for the document still sees how far it is.
            stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        place = stack.enter_context(DemoPlace.held(workspace))
        pages = Pages(PAGES, verbose=verbose, transcript=place.pages)
        document, is_sound = _play(place, pages)
    if as_json:
        print_document(document)
    if not is_sound:
        raise CommandEndedError(ExitCode.FAILURE)


def _play(place: DemoPlace, pages: Pages) -> tuple[JsonObject, bool]:
    """Play all pages; return what `--json` prints, and whether the checks found what they must."""
    pages.open(OPENING)
    played = _with_the_service(place, pages)
    pages.begin("The service is stopped; the bundles are checked without it")
    runs = played.runs
    checks = {
        name: check_folder(
            one.bundle, certificate=one.issued, reader=read_reader(place.trust, None, one.bundle)
        )
        for name, one in runs.items()
    }
    with pages.part(View.WHOLE):
        print_checks(checks, place)
    with pages.part(View.SHORT):
        print_verdicts(checks)
    plots = _draw(runs, place, pages)
    pages.begin("A stranger has a bundle and trust.json, and no software of ours")
    first = runs["cartograph"]
    stranger = check_as_a_stranger(first.bundle, place.trust, scratch=place.temporary)
    with pages.part(View.BOTH):
        print_stranger(stranger)
    pages.begin("With all keys, the operator drops Cartograph's run from the log")
    rewritten = drop_run(played.watched, str(first.theatre.seen["id"]), place)
    with pages.part(View.BOTH):
        print_fork(played.watched, rewritten, place)
    is_sound = (
        played.forgery.verdict is Verdict.NOT_VALID
        and all(check.verdict is Verdict.LOGGED for check in checks.values())
        and stranger.verdict == Verdict.LOGGED
        and rewritten.fork is not None
    )
    page = place.folder / "report.html"
    if is_sound:
        write_checked(runs["observer"].bundle, checks["observer"], page)
        _print_end(place, pages, page)
    return {
        "report": str(page) if is_sound else None,
        "home": str(place.folder),
        "seconds": round(pages.seconds, 1),
        **{
            name: {**one.as_document(), "check": checks[name].as_document(), "plots": plots[name]}
            for name, one in runs.items()
        },
        **played.as_document(),
        "stranger": stranger.as_document(),
        "fork": rewritten.fork,
    }, is_sound


def _with_the_service(place: DemoPlace, pages: Pages) -> Played:
    """Start the service, do everything that is done over HTTP, and stop it."""
    folder = resource_root() / "fixtures" / "templates"
    templates = {name: read_template(folder / f"{id_}.json") for name, id_ in TEMPLATES.items()}
    write_constructs(place.constructs, {TEMPLATES[name]: one for name, one in templates.items()})
    pages.begin("The service starts, with a PostgreSQL of its own")
    with started_service(place) as service:
        address = service.address()
        with pages.part(View.BOTH):
            print_fact("service", f"{address}, its log in {shorten_path(place.log)}")
        with ServiceClient.connected(address) as anybody:
            stage = Stage.set_up(address, place, pages, anybody)
            with pages.part(View.WHOLE):
                print_fact("users", ", ".join(stage.people))
                print_fact("claimed", f"{', '.join(CLAIMED)}; confirmed by the operator")
                print_fact("accepted", ", ".join(TEMPLATES.values()))
            return stage.run_all(templates)


def _draw(runs: Mapping[str, Certified], place: DemoPlace, pages: Pages) -> JsonObject:
    drawn: JsonObject = {}
    with pages.part(View.WHOLE):
        for name, one in runs.items():
            paths = draw_bundle(one.bundle, place.folder / "plots" / name)
            drawn[name] = [str(path) for path in paths]
            for path in paths:
                print_fact("picture", str(shorten_path(path)))
    return drawn


def _print_end(place: DemoPlace, pages: Pages, page: Path) -> None:
    pages.end("Bundles passed; forgery and rewritten log were seen. Nothing is left running.")
    with pages.part(View.SHORT):
        print_fact("to read", f"{shorten_path(page)}; the rest: {shorten_path(place.pages)}")
    with pages.part(View.WHOLE):
        print_fact("to read", f"{shorten_path(page)}, Observer's certificate, in a browser")
        print_fact("to look at", "what it left, with the passwords in people.json:")
        print_fact("", f"ECHELON_HOME={shorten_path(place.folder)} \\")
        print_fact("", f"ECHELON_CONSTRUCTS={shorten_path(place.constructs)} echelon serve")


@contextlib.contextmanager
def _ended_by_sigterm_too() -> Iterator[None]:
    """Let SIGTERM end the demo as Ctrl-C does: everything is stopped on the way out."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
