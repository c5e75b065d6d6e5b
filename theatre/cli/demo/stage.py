"""What the demo does while its service runs: everything over HTTP, but the operator's part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from theatre.cli.baselines import replace_construct
from theatre.cli.demo.client import ServiceClient
from theatre.cli.demo.operator import confirm_constructs
from theatre.cli.demo.pages import Pages, print_look_up, print_requests, print_routing
from theatre.cli.demo.people import AUTHOR, signed_in
from theatre.cli.demo.place import DemoPlace
from theatre.cli.demo.rating import (
    as_document,
    let_stand_ins_score,
    open_rubric,
    print_item,
    print_rubric,
    print_scores,
)
from theatre.cli.demo.reviewers import REVIEWERS
from theatre.cli.demo.theatres import Certified, DemoTheatre, fetch_evidence
from theatre.cli.reports import print_certificate, print_comparison
from theatre.engine.canonical_json import JsonObject
from theatre.oracles.construct_registry import ConstructRegistry, construct_version

BASELINES = ("observer_majority", "observer_keywords")
# The other baseline stays nobody's: routing says so.
CLAIMED = ("cartograph", "observer", "easel", "observer_majority")
_TAKEN = 409


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The part of the demo that needs the service."""

    place: DemoPlace
    pages: Pages
    anybody: ServiceClient
    people: Mapping[str, ServiceClient]

    @classmethod
    def set_up(cls, place: DemoPlace, pages: Pages, anybody: ServiceClient) -> Stage:
        """Sign everybody in, claim the constructs, and confirm them as the operator."""
        people = signed_in(anybody, place.people)
        _claim(people[AUTHOR], place)
        return cls(place=place, pages=pages, anybody=anybody, people=people)

    def run_all(
        self, templates: Mapping[str, JsonObject]
    ) -> tuple[dict[str, Certified], JsonObject]:
        """Certify everything; return the three, and the rest of what `--json` prints."""
        pages = self.pages
        pages.begin("Cartograph claims four skills")
        cartograph = self._shown(self._started(templates["cartograph"]))
        pages.begin("Observer, a service behind HTTP, sorts research notes")
        observer = self._shown(self._started(templates["observer"]))
        pages.begin("Two baselines through the same template, beside the Observer")
        baselines = {name: self._baseline(templates["observer"], name) for name in BASELINES}
        print_comparison(
            {name: one.bundle for name, one in {"observer": observer, **baselines}.items()}
        )
        pages.begin("Easel, Artisan and Mint, a chain: its run waits for people")
        waiting = self._started(templates["easel"])
        ratings = self._rated(waiting)
        pages.begin("Its run goes on, and says where decisions were lost")
        waiting.watch()
        easel = self._shown(waiting)
        runs = {"cartograph": cartograph, "observer": observer, "easel": easel}
        pages.begin("What anybody may look up, without an account")
        print_look_up(one.certificate for one in (*runs.values(), *baselines.values()))
        pages.begin("How far a router may trust them, if they declare `skip`")
        routing = {name: self._routing(name) for name in (*runs, *baselines)}
        print_routing(routing.values())
        return runs, {
            "baselines": {name: one.as_document() for name, one in baselines.items()},
            "ratings": ratings,
            "routing": {**routing},
        }

    def _started(self, template: JsonObject) -> DemoTheatre:
        theatre = DemoTheatre.created(self.people[AUTHOR], template)
        theatre.commit()
        theatre.run()
        return theatre

    def _shown(self, theatre: DemoTheatre) -> Certified:
        certified = fetch_evidence(self.anybody, theatre, self.place)
        print_requests(theatre.seen["id"], theatre.asked_since())
        print_certificate(certified.bundle)
        return certified

    def _baseline(self, template: JsonObject, construct_id: str) -> Certified:
        construct = ConstructRegistry.load(self.place.constructs).find(construct_id)
        version = construct_version(construct)
        other = replace_construct(template, construct_id, version=version)
        return fetch_evidence(self.anybody, self._started(other), self.place)

    def _rated(self, theatre: DemoTheatre) -> JsonObject:
        """Show what is asked, let the stand-ins score; return reviewer → episode → score."""
        print_requests(theatre.seen["id"], theatre.asked_since())
        rubric = open_rubric(self.people[next(iter(REVIEWERS))], theatre)
        print_rubric(rubric)
        print_item(rubric.items[0])
        self.pages.begin("Two stand-ins score: rules, no people, and named so")
        given = let_stand_ins_score(self.people, theatre, rubric)
        print_scores(given)
        return as_document(given)

    def _routing(self, construct_id: str) -> dict[str, Any]:
        path = f"/constructs/{construct_id}/routing"
        return self.anybody.get(path, declared_review="skip").document


def _claim(author: ServiceClient, place: DemoPlace) -> None:
    """Claim the constructs, and confirm them as the operator; a second demo finds them so."""
    for construct_id in CLAIMED:
        author.post("/constructs", {"construct_id": construct_id}, expected=_TAKEN)
    own = author.get("/constructs").document["constructs"]
    if any(one["confirmed_at"] is None for one in own):
        confirm_constructs(place, CLAIMED, owner=AUTHOR)
