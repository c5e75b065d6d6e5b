"""One theatre of the demo over HTTP: from its draft to its evidence, scored by the stand-ins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

from theatre.cli.demo.client import DemoError, ServiceClient
from theatre.cli.demo.place import DemoPlace
from theatre.cli.demo.reviewers import REVIEWERS, demo_scores
from theatre.cli.progress import RunLine
from theatre.engine.canonical_json import JsonObject
from theatre.engine.replay import RatingItem, SubmittedScore
from theatre.files.published_bundle import unpack_bundle

_SHOWN_OF_HASH = 16
_WENT_WELL = frozenset({"succeeded", "waiting_hitl"})


@dataclass(slots=True, kw_only=True)
class DemoTheatre:
    """A theatre as its owner sees it, and what was asked about it."""

    owner: ServiceClient
    template_id: str
    seen: dict[str, Any]
    asked: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def created(cls, owner: ServiceClient, template: JsonObject) -> Self:
        """Make a DRAFT of a template."""
        answer = owner.post("/theatres", {"template_json": template})
        theatre = cls(owner=owner, template_id=str(template["theatre_id"]), seen=answer.document)
        theatre.note("POST /theatres", answer.status, theatre.seen["state"])
        return theatre

    @property
    def path(self) -> str:
        """Return where it is found."""
        return f"/theatres/{self.seen['id']}"

    def commit(self) -> None:
        """Commit it: ground truth is hashed and copied, and nothing changes any more."""
        answer = self.owner.post(f"{self.path}/commit")
        self.seen = answer.document
        answered = f"{self.seen['state']}  {self.seen['commitment_hash'][:_SHOWN_OF_HASH]}…"
        self.note(f"POST {self.path}/commit", answer.status, answered)

    def run(self) -> None:
        """Have it run until it is over, or waits for people."""
        answer = self.owner.post(f"{self.path}/run")
        self.note(f"POST {self.path}/run", answer.status, answer.document["run"]["status"])
        self.watch()

    def watch(self) -> None:
        """Follow its events until the run is over, or waits for people; DemoError if it failed."""
        with RunLine(str(self.seen["construct_id"])) as line:
            self.seen = self.owner.watch(self.path, line.update)
        run = self.seen["run"]
        if run["status"] not in _WENT_WELL:
            raise DemoError(
                f"expected the run of {self.template_id} to go on, got {run['status']} "
                f"({self.seen['outcome_reason'] or 'not begun'}): {self.seen['error']}"
            )
        ending = self.seen["outcome"] or f"waits for {', '.join(self.seen['pending_steps'])}"
        answered = f"{self.seen['state']}  {run['progress']}/{run['total']}  {ending}"
        self.note(f"GET {self.path}/events", 200, answered)

    def asked_since(self) -> list[tuple[str, str]]:
        """Return the requests since the last time, and the answers."""
        asked, self.asked = self.asked, []
        return asked

    def note(self, request: str, status: int, answer: str) -> None:
        """Remember a request as a line of a table."""
        shown = request.replace(str(self.seen["id"]), "{id}")
        self.asked.append((shown, f"{status}  {answer}"))


class OpenRubric(NamedTuple):
    """What a theatre asks people, and about which answers, as the service shows them."""

    asked: Mapping[str, Any]
    items: Sequence[RatingItem]


def open_rubric(scorer: ServiceClient, theatre: DemoTheatre) -> OpenRubric:
    """Return the rubric that a theatre waits at."""
    asked = scorer.get(f"{theatre.path}/hitl").document
    return OpenRubric(asked=asked, items=[RatingItem(**item) for item in asked["items"]])


def let_stand_ins_score(
    people: Mapping[str, ServiceClient], theatre: DemoTheatre, rubric: OpenRubric
) -> dict[str, list[SubmittedScore]]:
    """Send what each stand-in gives every item, as itself; return it."""
    given = {name: demo_scores(name, rubric.items) for name in REVIEWERS}
    path = f"{theatre.path}/hitl/{rubric.asked['step_id']}/scores"
    for name, scores in given.items():
        submitted = [
            {"episode_id": one.episode_id, "value": one.score, "rationale": one.comment}
            for one in scores
        ]
        document = {"scores": submitted, "rubric_sha256": rubric.asked["rubric_sha256"]}
        answer = people[name].post(path, document)
        scorers = f"{answer.document['complete_scorers']} of {answer.document['minimum_scorers']}"
        theatre.note(f"POST {path}", answer.status, f"{scorers} people")
    return given


class Certified(NamedTuple):
    """A theatre with its certificate, as anybody gets both from the service."""

    theatre: DemoTheatre
    certificate: dict[str, Any]
    bundle: Path
    issued: Path

    def as_document(self) -> JsonObject:
        """Return what `--json` says of it."""
        return {
            "theatre": self.theatre.seen,
            "certificate": self.certificate,
            "bundle_path": str(self.bundle),
            "certificate_path": str(self.issued),
        }


def fetch_evidence(anybody: ServiceClient, theatre: DemoTheatre, place: DemoPlace) -> Certified:
    """Download certificate and bundle without an account; DemoError where there are none."""
    seen = theatre.seen
    if seen["outcome"] != "certified":
        raise DemoError(
            f"expected a certificate for {theatre.template_id}, got the outcome {seen['outcome']} "
            f"({seen['outcome_reason']})"
        )
    name = str(seen["construct_id"])
    archive, bundle = place.bundle(f"{name}.tar.gz"), place.bundle(name)
    size = anybody.download(f"{theatre.path}/evidence-bundle", archive)
    theatre.note(f"GET {theatre.path}/evidence-bundle", 200, f"{size // 1024} KiB")
    unpack_bundle(archive, bundle)
    archive.unlink()
    path = f"/certificates/{seen['certificate_id']}"
    issued = place.certificate(name)
    anybody.download(f"{path}/document", issued)
    certificate = anybody.get(path).document
    return Certified(theatre=theatre, certificate=certificate, bundle=bundle, issued=issued)
