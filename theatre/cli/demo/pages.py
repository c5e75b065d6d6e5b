"""What a person sees of the demo, page by page: in short, in lines of 80 columns, or whole."""

import contextlib
import io
import re
import textwrap
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import click

from theatre.api.checks import format_verdict
from theatre.cli.certificate_report import shorten_path
from theatre.cli.demo.log_end import Stranger, Watched
from theatre.cli.demo.place import DemoPlace
from theatre.cli.demo.theatres import OpenRubric
from theatre.cli.exits import echo
from theatre.cli.monitor_command import Report
from theatre.cli.tables import format_bounds, format_number, print_table
from theatre.engine.bundle_check import CheckReport
from theatre.engine.canonical_json import parse_object
from theatre.engine.replay import SubmittedScore
from theatre.engine.scoring import COMPOSITE
from theatre.pages.wording import best_baseline

_COLUMNS = 80
_TITLE_COLUMNS = 73
_FACT_COLUMN, _RUBRIC_COLUMN, _PERSON_COLUMN = 11, 10, 17
_SHOWN_OF_HASH = 12
_HASH = re.compile(r"\b[0-9a-f]{64}\b")
_DATE = len("2026-11-21")
_WHY = {
    "construct-not-registered": "nobody has claimed it",
    "owner-not-confirmed": "not run by its owner",
    "template-not-accepted": "template not accepted",
    "issued-unverified": "its own certificate says UNVERIFIED",
}


class View(Enum):
    """Which readers see what is printed: those of a page in short, those of all of it, or both."""

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


def _print_wrapped(name: str, text: str, *, column: int) -> None:
    for number, line in enumerate(textwrap.wrap(text, _COLUMNS - column) or [""]):
        echo(f"{'' if number else name:{column}}{line}".rstrip())


# A run and its certificate.


def print_requests(theatre_id: str, asked: Sequence[tuple[str, str]]) -> None:
    """Print what was asked of the service about a theatre, and its answers."""
    print_fact("theatre", theatre_id)
    print_table(("request", "answer"), asked)
    echo("")


def print_scores(bundle: Path) -> None:
    """Print, in short, a certificate's scores, each with the best answer that needs no work."""
    certificate = _certificate(bundle)
    rows = []
    for name in certificate["criteria"]["criteria_ids"]:
        counts = certificate["score_counts"][name]
        best = best_baseline(certificate["baselines"], name)
        rows.append(
            (
                name,
                format_number(certificate["scores"][name]),
                _interval(certificate, name),
                str(counts["scored"]),
                str(counts["missing"]),
                "-" if isinstance(best, str) else format_number(best[0]),
            )
        )
    composite = (format_number(certificate[COMPOSITE]), _interval(certificate, COMPOSITE))
    print_table(
        ("criterion", "score", "95 % interval", "scored", "failed", "trivial"),
        [*rows, ("composite", *composite, "", "", "")],
    )


def print_composites(bundles: Mapping[str, Path]) -> None:
    """Print the composite scores of constructs that were measured by one template."""
    certificates = {name: _certificate(bundle) for name, bundle in bundles.items()}
    print_table(
        ("construct", "composite", "95 % interval"),
        [
            (name, format_number(one[COMPOSITE]), _interval(one, COMPOSITE))
            for name, one in certificates.items()
        ],
    )


def print_tier(bundle: Path) -> None:
    """Print the tier, and the first of what keeps a construct from the next one."""
    certificate = _certificate(bundle)
    tier: Mapping[str, Any] = parse_object((bundle / "tier.json").read_bytes())
    caps = [one for one in tier["assessment"]["unmet"] if one["code"] in certificate["caps"]]
    text = certificate["verification_tier"]
    if caps:
        text += f", not {caps[0]['tier']}: {caps[0]['code']} (seen: {caps[0]['seen']})"
    if len(caps) > 1:
        text += f" and {len(caps) - 1} more"
    print_fact("tier", text)


def _interval(certificate: Mapping[str, Any], name: str) -> str:
    return format_bounds(certificate["score_intervals"][name], "-")


def _certificate(bundle: Path) -> dict[str, Any]:
    return parse_object((bundle / "certificate.json").read_bytes())


# What people are asked, and what the stand-ins give.


def print_waiting(rubric: OpenRubric) -> None:
    """Print, in short, what a run waits for, and of whom it is asked."""
    step, people = rubric.asked["step_id"], rubric.asked["minimum_scorers"]
    asked = f"{len(rubric.items)} answers, {people} or more people, none of them an author"
    print_fact("waits for", f"{step}: {asked}")


def print_rubric(rubric: OpenRubric) -> None:
    """Print how the rubric begins, of whom it is asked, on which scale, and its first item."""
    asked, item = rubric.asked, rubric.items[0]
    first = next(iter(asked["rubric"].split("\n\n")))
    labels = sorted(asked["scoring_scale"]["labels"].items(), key=lambda pair: float(pair[0]))
    people = f"at least {asked['minimum_scorers']} people, of whom none is an author"
    brief = _part(item.input_data, "brief")
    direction = _part(_part(item.answers, "artisan"), "direction")
    for name, text in (
        ("rubric", f"{' '.join(first.split())} …"),
        *((f"{point:>8}", label) for point, label in labels),
        ("asked of", f"{people}, about each of {len(rubric.items)} answers"),
        ("item", item.episode_id),
        ("brief", f"{brief.get('title')}: {brief.get('medium')}, {brief.get('audience')}"),
        ("", str(brief.get("text"))),
        ("wants", ", ".join(map(str, direction.get("we_want", []))) or "nothing"),
        ("avoids", ", ".join(map(str, direction.get("we_avoid", []))) or "nothing"),
    ):
        _print_wrapped(name, text, column=_RUBRIC_COLUMN)


def _part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = document.get(name)
    return part if isinstance(part, dict) else {}


def print_given(given: Mapping[str, Sequence[SubmittedScore]]) -> None:
    """Print what each stand-in gave, and why it gave the first item that."""
    for name, scores in given.items():
        values = " ".join(f"{one.score:g}" for one in scores)
        _print_wrapped(name, values, column=_PERSON_COLUMN)
        _print_wrapped("", f"the first because: {scores[0].comment}", column=_PERSON_COLUMN)


def print_ratings(bundle: Path, names: Iterable[str]) -> None:
    """Print who scored in the place of people, how far they agree, and what comes of it."""
    certificate, path = _certificate(bundle), bundle / "scores" / "aggregate.json"
    aggregate: Mapping[str, Any] = parse_object(path.read_bytes())
    print_fact("scored by", f"{', '.join(names)}: two rules in the place of people")
    for step_id, one in aggregate["human_scores"].items():
        alpha = format_number(one["agreement"]["value"])
        print_fact("gave", f"{step_id}: {format_number(one['human'])}, their agreement: {alpha}")
    composite = f"{format_number(certificate[COMPOSITE])} ({_interval(certificate, COMPOSITE)})"
    print_fact("composite", composite)


# What the service says to anybody.


def print_look_up(certificates: Iterable[Mapping[str, Any]]) -> None:
    """Print what the service says of certificates."""
    print_fact("asked", "GET /certificates/{id}, which has the tier of now")
    print_fact("and", "GET /certificates/{id}/document, the file that was issued")
    rows = [
        (
            str(one["construct_id"]),
            str(one["certificate_id"]),
            str(one["verification_tier"]),
            str(one["expires_at"] or "-")[:_DATE],
            next(_reasons(one), "-"),
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
            ", ".join(_reasons(one)) or "as certified",
        )
        for one in answers
    ]
    print_table(("construct", "tier", "routing", "review", "why"), rows)


def print_trust(
    certificates: Iterable[Mapping[str, Any]], routing: Mapping[str, Mapping[str, Any]]
) -> None:
    """Print, in short, what certificates say now, and what a router makes of them."""
    rows = []
    for one in certificates:
        routed = routing[str(one["construct_id"])]
        rows.append(
            (
                str(one["construct_id"]),
                str(one["verification_tier"]),
                str(routed["routing_class"]),
                ", ".join(_reasons(routed)) or "as certified",
            )
        )
    print_table(("construct", "tier now", "routing", "why"), rows)


def _reasons(answer: Mapping[str, Any]) -> Iterator[str]:
    return (_WHY.get(reason, reason) for reason in answer["reasons"])


# The check of honest bundles, and of a forged one.


def print_checks(checks: Mapping[str, CheckReport], place: DemoPlace) -> None:
    """Print how bundles did, and with which commands anybody checks them."""
    rows = [
        (name, str(len(one.checks)), str(len(one.failed)), one.verdict.value)
        for name, one in checks.items()
    ]
    print_table(("bundle", "checks", "failed", "verdict"), rows)
    for name in checks:
        _print_command(name, place)


def print_verdicts(checks: Mapping[str, CheckReport]) -> None:
    """Print, in short, how bundles did: a line for each verdict."""
    for verdict in dict.fromkeys(report.verdict for report in checks.values()):
        names = ", ".join(name for name, one in checks.items() if one.verdict is verdict)
        print_fact("verdict", f"{verdict}: {names}")


def _print_command(name: str, place: DemoPlace) -> None:
    echo(f"echelon check {shorten_path(place.bundle(name))} \\")
    echo(f"    --certificate {shorten_path(place.certificate(name))} \\")
    echo(f"    --trust {shorten_path(place.trust)}")


def print_failures(report: CheckReport) -> None:
    """Print what a check found wrong; of hashes, the beginning."""
    for check in report.failed:
        echo(f"FAIL  {check.id}")
        for name, text in (("expected", check.expected), ("got", check.actual)):
            short = _HASH.sub(lambda found: f"{found[0][:_SHOWN_OF_HASH]}…", text)
            echo(f"      {name:8} {short}")
    echo(format_verdict(report))


def print_forgery(forged: CheckReport, *, changed: str) -> None:
    """Print, in short, what the check says of a bundle of which one bit was flipped."""
    print_fact("changed", changed)
    _print_wrapped("FAIL", ", ".join(check.id for check in forged.failed), column=_FACT_COLUMN)
    print_fact("forged", format_verdict(forged))


# A stranger, and an operator who rewrites his log.


def print_watched(watched: Watched) -> None:
    """Print what a monitor has seen of the log."""
    record = watched.seen.seen.record
    faults = f"{len(record.faults)} faults" if record.faults else "no fault"
    size = len(watched.entries)
    print_fact("log", f"{size} entries, {faults}: a monitor has read all of them")


def print_stranger(stranger: Stranger) -> None:
    """Print what one learns who has a bundle and trust.json, and no software of ours."""
    if stranger.openssl is None:
        print_fact("openssl", "not on this machine")
        print_fact("one file", f"{stranger.verdict}: verify_bundle.py, with cryptography")
        return
    print_fact("openssl", f"{stranger.openssl}: the issuer signed this certificate of these files")
    print_fact("one file", f"{stranger.verdict}: verify_bundle.py, with nothing installed")


def print_fork(watched: Watched, seen: Report, place: DemoPlace) -> None:
    """Print what the monitor says of a log that was signed again without a run."""
    size = len(watched.entries)
    print_fact("signed", f"{size} entries again, by the log's own key, without that run")
    evidence = f"FORK, both checkpoints kept below {shorten_path(place.monitor)}"
    print_fact("monitor", evidence if seen.fork else "nothing wrong")
