"""`echelon demo`: certify a real construct, check the bundle, forge a copy, catch the forgery."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from pathlib import Path

import click

from theatre.cli.check_command import check_folder, print_report
from theatre.cli.committing import commit_template, read_template
from theatre.cli.exits import CommandEndedError, ExitCode
from theatre.cli.output import json_option, print_document
from theatre.cli.reports import print_certificate, run_report
from theatre.cli.theatre_group import run_to_end
from theatre.cli.workspace import Workspace
from theatre.engine.bundle_check import CheckReport
from theatre.engine.errors import BundleError
from theatre.engine.schema_registry import resource_root

TEMPLATE = "fixtures/templates/product_cartograph_v1.json"
FORGED_FILE = "invocations/episode_000001.json"


@click.command()
@json_option
def demo(*, as_json: bool) -> None:
    """Certify the shipped Cartograph construct, then catch a forged bundle. About ten seconds."""
    workspace = Workspace.from_environment()
    say = _Narrator(silent=as_json)
    say.step("1  Commit the template, then call the real construct for every episode")
    theatre_id = _commit(workspace)
    run_to_end(theatre_id, workspace, quiet=as_json)
    report = run_report(workspace.store.view(theatre_id))
    bundle = Path(str(report["bundle_path"]))
    say.step("2  The certificate")
    if not as_json:
        print_certificate(bundle)
    say.step("3  Check the bundle: everything is recomputed from its files alone")
    honest = check_folder(bundle)
    say.report(honest)
    say.step(f"4  Flip one byte of the answer in {FORGED_FILE} of a copy, and check it")
    forged = _check_forgery(bundle)
    say.report(forged)
    if as_json:
        print_document(
            {"run": report, "check": honest.as_document(), "forgery": forged.as_document()}
        )
    if not honest.valid or forged.valid:
        raise CommandEndedError(ExitCode.FAILURE)
    say.step("The honest bundle passed, the forged one did not.")


class _Narrator:
    """Tells a person what happens next; silent where a machine reads."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent

    def step(self, text: str) -> None:
        if not self._silent:
            click.echo(f"\n── {text}")

    def report(self, report: CheckReport) -> None:
        if not self._silent:
            print_report(report)


def _commit(workspace: Workspace) -> str:
    template = resource_root() / TEMPLATE
    committed = asyncio.run(
        commit_template(
            read_template(template), template_folder=template.parent, workspace=workspace
        )
    )
    return committed.theatre_id


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
