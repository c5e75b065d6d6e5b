"""What a person sees of the demo, page by page."""

from __future__ import annotations

import contextlib
import io
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import click

from theatre.cli.checking import format_verdict
from theatre.cli.demo.place import DemoPlace
from theatre.cli.exits import echo
from theatre.cli.reports import shorten_path
from theatre.cli.tables import print_table
from theatre.engine.bundle_check import CheckReport

_TITLE_COLUMNS = 73
_FACT_COLUMN = 11
_SHOWN_OF_HASH = 12
_HASH = re.compile(r"\b[0-9a-f]{64}\b")
_DATE = len("2026-11-21")
WHY = {
    "construct-not-registered": "nobody has claimed it",
    "owner-not-confirmed": "not run by its owner",
    "template-not-accepted": "template not accepted",
    "issued-unverified": "its own certificate says UNVERIFIED",
}


class View(Enum):
    """Who sees what is printed: who wants a page in short, who wants all of it, or both."""

    SHORT = "short"
    WHOLE = "whole"
    BOTH = "both"


class Pages:
    """Prints the pages of a demo, numbered out of `total`: in short, or whole with `verbose`.

    Whichever is printed, the whole goes into the file `transcript`.
    """

    def __init__(self, total: int, *, verbose: bool, transcript: Path) -> None:
        self._total = total
        self._verbose = verbose
        self._transcript = transcript
        self._transcript.write_bytes(b"")
        self._number = 0
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Return how long the demo has taken so far."""
        return time.monotonic() - self._began

    def open(self, text: str) -> None:
        """Print what will be shown."""
        with self.part(View.BOTH, bold=True):
            echo(text)

    def begin(self, title: str) -> None:
        """Begin a page: its number, its title, the seconds so far."""
        self._number += 1
        line = f"── {self._number}/{self._total}  {title}"
        self._print_heading(f"{line:{_TITLE_COLUMNS}}{self.seconds:4.0f} s")

    def end(self, text: str) -> None:
        """Print how the demo ended."""
        self._print_heading(f"── {text}")

    @contextlib.contextmanager
    def part(self, view: View, *, bold: bool | None = None) -> Iterator[None]:
        """Print what is printed inside for one of the two views, or for both."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            yield
        text = printed.getvalue()
        if view is not View.SHORT:
            with self._transcript.open("a", encoding="utf-8") as transcript:
                transcript.write(text)
        if view is View.BOTH or (view is View.WHOLE) == self._verbose:
            click.secho(text, nl=False, bold=bold)

    def _print_heading(self, line: str) -> None:
        with self.part(View.BOTH, bold=True):
            click.echo(f"\n{line}")


def print_fact(name: str, text: str) -> None:
    """Print one thing, and what it is."""
    echo(f"{name:{_FACT_COLUMN}}{text}")


def print_requests(theatre_id: str, asked: Sequence[tuple[str, str]]) -> None:
    """Print what was asked of the service about a theatre, and its answers."""
    print_fact("theatre", theatre_id)
    print_table(("request", "answer"), asked)
    echo("")


def print_look_up(certificates: Iterable[Mapping[str, Any]]) -> None:
    """Print what the service says of certificates to anybody."""
    print_fact("asked", "GET /certificates/{id}, which has the tier of now")
    print_fact("and", "GET /certificates/{id}/document, the file that was issued")
    rows = [
        (
            str(one["construct_id"]),
            str(one["certificate_id"]),
            str(one["verification_tier"]),
            str(one["expires_at"] or "-")[:_DATE],
            next((WHY.get(reason, reason) for reason in one["reasons"]), "-"),
        )
        for one in certificates
    ]
    print_table(("construct", "certificate", "tier now", "until", "why"), rows)


def print_routing(answers: Iterable[Mapping[str, Any]]) -> None:
    """Print how far constructs may be trusted now, and why not further."""
    print_fact("asked", "GET /constructs/{id}/routing?declared_review=skip")
    rows = [
        (
            str(one["construct_id"]),
            str(one["effective_tier"]),
            str(one["routing_class"]),
            f"{one['declared_review']} → {one['effective_review']}",
            ", ".join(WHY.get(reason, reason) for reason in one["reasons"]) or "as certified",
        )
        for one in answers
    ]
    print_table(("construct", "tier", "routing", "review", "why"), rows)


def print_checks(checks: Mapping[str, CheckReport], place: DemoPlace) -> None:
    """Print how bundles did, and with which command anybody checks them."""
    rows = [
        (name, str(len(one.checks)), str(len(one.failed)), one.verdict.value)
        for name, one in checks.items()
    ]
    print_table(("bundle", "checks", "failed", "verdict"), rows)
    for name in checks:
        echo(f"echelon check {shorten_path(place.bundle(name))} \\")
        echo(f"    --certificate {shorten_path(place.certificate(name))}")


def print_failures(report: CheckReport) -> None:
    """Print what a check found wrong; of hashes, the beginning."""
    for check in report.failed:
        echo(f"FAIL  {check.id}")
        echo(f"      expected {_shortened(check.expected)}")
        echo(f"      got      {_shortened(check.actual)}")
    echo(format_verdict(report))


def _shortened(text: str) -> str:
    return _HASH.sub(lambda found: f"{found[0][:_SHOWN_OF_HASH]}…", text)
