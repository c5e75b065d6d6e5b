"""`echelon demo`: certify two constructs and a chain, check the bundles, catch a forged one."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import click

from theatre.cli.baselines import with_construct
from theatre.cli.check_command import check_folder, print_report
from theatre.cli.committing import commit_template, read_template
from theatre.cli.demo_rating import (
    as_document,
    let_stand_ins_score,
    open_rubric,
    print_item,
    print_rubric,
    print_scores,
)
from theatre.cli.exits import CommandEndedError, ExitCode
from theatre.cli.output import echo, json_option, print_document
from theatre.cli.pictures import draw_pictures
from theatre.cli.reports import (
    print_certificate,
    print_comparison,
    print_run,
    run_report,
    shortest,
)
from theatre.cli.theatre_group import run_to_end
from theatre.cli.workspace import Workspace
from theatre.engine.bundle_check import CheckReport
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import BundleError
from theatre.engine.schema_registry import resource_root
from theatre.files.theatre_store import TheatreView
from theatre.oracles.construct_registry import construct_version

TEMPLATES = "fixtures/templates"
CARTOGRAPH, OBSERVER = "product_cartograph_v1", "product_observer_v1"
EASEL = "product_easel_v1"
BASELINES = ("observer_majority", "observer_keywords")
FORGED_FILE = "invocations/episode_000001.json"


@click.command()
@json_option
def demo(*, as_json: bool) -> None:
    """Certify three shipped theatres, one of them with human scores; catch a forged bundle.

    Two baselines stand beside the second, run as constructs through the same template. The third
    is a chain of three services that waits for people; two stand-ins, which are rules and named
    so, score in their place. Less than a minute and a half.
    """
    stage = _Stage(Workspace.from_environment(), silent=as_json)
    stage.say("1  Cartograph: commit the template, then call the real construct every time")
    cartograph = stage.certify(stage.template(CARTOGRAPH))
    stage.say("2  Its certificate")
    stage.show(cartograph)
    stage.say("3  Observer, a service behind HTTP that is started for the run: the same")
    template = stage.template(OBSERVER)
    observer = stage.certify(template)
    stage.say("4  Its certificate")
    stage.show(observer)
    stage.say("5  Two baselines as constructs through the same template, beside the Observer")
    baselines = {name: stage.certify(stage.with_baseline(template, name)) for name in BASELINES}
    stage.compare({"observer": observer, **baselines})
    stage.say("6  Easel, Artisan and Mint, a chain of three services: the run waits for people")
    easel_id = stage.run_to_rubric(stage.template(EASEL))
    stage.say("7  Two stand-ins score in their place: small rules, no people, and named so")
    ratings = stage.rate(easel_id)
    stage.say("8  The run goes on to its certificate, and says where decisions were lost")
    easel = stage.go_on(easel_id)
    stage.show(easel)
    runs = {"cartograph": cartograph, "observer": observer, "easel": easel}
    stage.say("9  Check the three bundles: everything is recomputed from their files alone")
    checks = {name: stage.check(one) for name, one in runs.items()}
    stage.say(f"10 Flip one byte of the answer in {FORGED_FILE} of a copy, and check it")
    forged = _check_forgery(cartograph.bundle)
    stage.report(forged)
    stage.say("11 Pictures of the three (`echelon theatre show ID --plot DIR` draws them)")
    plots = {name: stage.draw(one) for name, one in runs.items()}
    if as_json:
        print_document(
            {
                **{name: one.as_document(checks[name], plots[name]) for name, one in runs.items()},
                "baselines": {name: one.report for name, one in baselines.items()},
                "ratings": ratings,
                "forgery": forged.as_document(),
            }
        )
    if forged.valid or not all(check.valid for check in checks.values()):
        raise CommandEndedError(ExitCode.FAILURE)
    stage.say("The honest bundles passed, the forged one did not.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Certified:
    """A theatre that ran to its certificate."""

    view: TheatreView
    report: JsonObject

    @property
    def bundle(self) -> Path:
        return Path(str(self.report["bundle_path"]))

    @property
    def name(self) -> str:
        return str(self.view.template["theatre_id"])

    def as_document(self, check: CheckReport, plots: list[str]) -> JsonObject:
        return {"run": self.report, "check": check.as_document(), "plots": [*plots]}


class _Stage:
    """Plays the steps of the demo, and tells a person; silent where a machine reads."""

    def __init__(self, workspace: Workspace, *, silent: bool) -> None:
        self._workspace = workspace
        self._silent = silent
        self._folder = resource_root() / TEMPLATES

    def say(self, text: str) -> None:
        if not self._silent:
            click.echo(f"\n── {text}")

    def template(self, name: str) -> JsonObject:
        return read_template(self._folder / f"{name}.json")

    def with_baseline(self, template: JsonObject, construct_id: str) -> JsonObject:
        construct = self._workspace.find_construct(construct_id, self._folder)
        return with_construct(template, construct_id, version=construct_version(construct))

    def certify(self, template: JsonObject) -> _Certified:
        return self.go_on(self._commit(template))

    def run_to_rubric(self, template: JsonObject) -> str:
        """Run a theatre to where it waits for people, show what they see; return its id."""
        theatre_id = self._commit(template)
        self._run(theatre_id)
        if not self._silent:
            print_run(run_report(self._workspace.store.view(theatre_id)))
            echo("")
            rubric = open_rubric(theatre_id, self._workspace)
            print_rubric(rubric)
            print_item(rubric.items[0])
        return theatre_id

    def rate(self, theatre_id: str) -> JsonObject:
        """Let the stand-ins score every item; return reviewer → episode → score."""
        given = let_stand_ins_score(theatre_id, self._workspace)
        if not self._silent:
            print_scores(given)
        return as_document(given)

    def go_on(self, theatre_id: str) -> _Certified:
        self._run(theatre_id)
        view = self._workspace.store.view(theatre_id)
        return _Certified(view=view, report=run_report(view))

    def _commit(self, template: JsonObject) -> str:
        committed = asyncio.run(
            commit_template(template, template_folder=self._folder, workspace=self._workspace)
        )
        return committed.theatre_id

    def _run(self, theatre_id: str) -> None:
        run_to_end(theatre_id, self._workspace, quiet=self._silent)

    def show(self, certified: _Certified) -> None:
        if not self._silent:
            print_certificate(certified.bundle)

    def compare(self, certified: dict[str, _Certified]) -> None:
        if not self._silent:
            print_comparison({name: one.bundle for name, one in certified.items()})

    def check(self, certified: _Certified) -> CheckReport:
        report = check_folder(certified.bundle)
        if not self._silent:
            echo(f"{certified.name}:")
        self.report(report)
        return report

    def report(self, report: CheckReport) -> None:
        if not self._silent:
            print_report(report)

    def draw(self, certified: _Certified) -> list[str]:
        home = self._workspace.home
        paths = draw_pictures(certified.view, home / "plots" / certified.name, home=home)
        if not self._silent:
            for path in paths:
                echo(str(shortest(path)))
        return [str(path) for path in paths]


def _check_forgery(bundle: Path) -> CheckReport:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / bundle.name
        shutil.copytree(bundle, copy)
        target = copy / FORGED_FILE
        target.write_bytes(_with_other_answer(target.read_bytes()))
        return check_folder(copy)


def _with_other_answer(record: bytes) -> bytes:
    """Return `record` with one bit of the first digit of the recorded answer flipped."""
    answer = re.search(rb'"result":\D*', record)
    if answer is None:
        raise BundleError("expected a recorded answer with a number in it, got none")
    forged = bytearray(record)
    forged[answer.end()] ^= 1
    return bytes(forged)
