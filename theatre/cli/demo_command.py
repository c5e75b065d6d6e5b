"""`echelon demo`: certify two real constructs, check their bundles, catch a forged one."""

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
from theatre.cli.exits import CommandEndedError, ExitCode
from theatre.cli.output import echo, json_option, print_document
from theatre.cli.pictures import draw_pictures
from theatre.cli.reports import print_certificate, print_comparison, run_report, shortest
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
BASELINES = ("observer_majority", "observer_keywords")
FORGED_FILE = "invocations/episode_000001.json"


@click.command()
@json_option
def demo(*, as_json: bool) -> None:
    """Certify two shipped constructs, one of them a service, then catch a forged bundle.

    Beside the second stand two baselines, run as constructs through the same template. Less
    than a minute and a half.
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
    stage.say("6  Check both bundles: everything is recomputed from their files alone")
    checks = [stage.check(one) for one in (cartograph, observer)]
    stage.say(f"7  Flip one byte of the answer in {FORGED_FILE} of a copy, and check it")
    forged = _check_forgery(cartograph.bundle)
    stage.report(forged)
    stage.say("8  Pictures of both (`echelon theatre show ID --plot DIR` draws them)")
    plots = [stage.draw(one) for one in (cartograph, observer)]
    if as_json:
        runs = zip((cartograph, observer), checks, plots, strict=True)
        first, second = (one.as_document(check, drawn) for one, check, drawn in runs)
        print_document(
            {
                "cartograph": first,
                "observer": second,
                "baselines": {name: one.report for name, one in baselines.items()},
                "forgery": forged.as_document(),
            }
        )
    if forged.valid or not all(check.valid for check in checks):
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
        committed = asyncio.run(
            commit_template(template, template_folder=self._folder, workspace=self._workspace)
        )
        run_to_end(committed.theatre_id, self._workspace, quiet=self._silent)
        view = self._workspace.store.view(committed.theatre_id)
        return _Certified(view=view, report=run_report(view))

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
