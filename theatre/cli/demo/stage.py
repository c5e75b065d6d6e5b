"""What the demo does while its service runs: everything over HTTP, but the operator's part."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from theatre.api.checks import check_folder, format_verdict
from theatre.api.connections import replace_construct
from theatre.cli.certificate_report import print_certificate, print_comparison
from theatre.cli.demo import pages as show
from theatre.cli.demo.client import BASE, TAKEN, ServiceClient, sign_in
from theatre.cli.demo.log_end import Watched, watch_log
from theatre.cli.demo.pages import Pages, View
from theatre.cli.demo.place import DemoPlace
from theatre.cli.demo.reviewers import REVIEWERS
from theatre.cli.demo.service import confirm_constructs
from theatre.cli.demo.theatres import (
    Certified,
    DemoTheatre,
    fetch_evidence,
    let_stand_ins_score,
    open_rubric,
)
from theatre.cli.exits import echo
from theatre.engine.bundle_check import CheckReport
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import BundleError
from theatre.oracles.construct_registry import ConstructRegistry, construct_version

BASELINES = ("observer_majority", "observer_keywords")
# Nobody claims the other baseline: routing says so.
CLAIMED = ("cartograph", "observer", "easel", "observer_majority")
AUTHOR = "demo-author"
FORGED_FILE = "invocations/episode_000001.json"


class Played(NamedTuple):
    """What the demo has when its service stops."""

    runs: Mapping[str, Certified]
    baselines: Mapping[str, Certified]
    ratings: JsonObject
    routing: JsonObject
    forgery: CheckReport
    watched: Watched

    def as_document(self) -> JsonObject:
        """Return what `--json` says of it, but for the runs."""
        return {
            "baselines": {name: one.as_document() for name, one in self.baselines.items()},
            "ratings": self.ratings,
            "routing": self.routing,
            "forgery": self.forgery.as_document(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The part of the demo that needs the service."""

    address: str
    place: DemoPlace
    pages: Pages
    anybody: ServiceClient
    people: Mapping[str, ServiceClient]

    @classmethod
    def set_up(cls, address: str, place: DemoPlace, pages: Pages, anybody: ServiceClient) -> Stage:
        """Sign all users in, claim the constructs, and confirm them as the operator."""
        people = sign_in(anybody, (AUTHOR, *REVIEWERS), place.people)
        _claim(people[AUTHOR], place)
        return cls(address=address, place=place, pages=pages, anybody=anybody, people=people)

    def run_all(self, templates: Mapping[str, JsonObject]) -> Played:
        """Certify everything, forge one bundle, and look up what anybody may know of the rest."""
        cartograph = self._certify_cartograph(templates["cartograph"])
        forgery = self._forge(cartograph)
        observer, baselines = self._certify_observer(templates["observer"])
        easel, ratings = self._certify_easel(templates["easel"])
        runs = {"cartograph": cartograph, "observer": observer, "easel": easel}
        routing = self._look_up({**runs, **baselines})
        return Played(
            runs=runs,
            baselines=baselines,
            ratings=ratings,
            routing=routing,
            forgery=forgery,
            watched=self._watch_log(),
        )

    def _certify_cartograph(self, template: JsonObject) -> Certified:
        pages = self.pages
        pages.begin("Cartograph claims four skills")
        cartograph = self._shown(self._started(template))
        with pages.part(View.SHORT):
            show.print_scores(cartograph.bundle)
            show.print_tier(cartograph.bundle)
        return cartograph

    def _forge(self, honest: Certified) -> CheckReport:
        """Flip one bit in a copy of a bundle, and show that the check finds it."""
        pages = self.pages
        pages.begin("In a copy of its evidence, one bit of one answer is flipped")
        as_it_came = check_folder(honest.bundle, certificate=honest.issued)
        forged = check_forgery(honest.bundle, scratch=self.place.temporary)
        with pages.part(View.WHOLE):
            show.print_fact("as it came", format_verdict(as_it_came))
            show.print_fact("changed", FORGED_FILE)
            show.print_failures(forged)
        with pages.part(View.SHORT):
            show.print_forgery(forged, changed=FORGED_FILE)
        return forged

    def _certify_observer(self, template: JsonObject) -> tuple[Certified, dict[str, Certified]]:
        pages = self.pages
        pages.begin("Observer sorts research notes, and so do two baselines")
        observer = self._shown(self._started(template))
        baselines = {name: self._baseline(template, name) for name in BASELINES}
        bundles = {name: one.bundle for name, one in {"observer": observer, **baselines}.items()}
        with pages.part(View.WHOLE):
            echo("")
            print_comparison(bundles)
        with pages.part(View.SHORT):
            show.print_composites(bundles)
            show.print_tier(observer.bundle)
        return observer, baselines

    def _certify_easel(self, template: JsonObject) -> tuple[Certified, JsonObject]:
        """Show what people are asked, and let the stand-ins score; return what each gave, too."""
        pages = self.pages
        pages.begin("Easel, Artisan and Mint, a chain: its run waits for people")
        theatre = self._started(template)
        rubric = open_rubric(self.people[next(iter(REVIEWERS))], theatre)
        with pages.part(View.WHOLE):
            show.print_requests(theatre.seen["id"], theatre.asked_since())
            show.print_rubric(rubric)
        with pages.part(View.SHORT):
            show.print_waiting(rubric)
        pages.begin("Two stand-ins score: rules, and named so; its run goes on")
        given = let_stand_ins_score(self.people, theatre, rubric)
        with pages.part(View.WHOLE):
            show.print_given(given)
            echo("")
        theatre.watch()
        easel = self._shown(theatre)
        with pages.part(View.SHORT):
            show.print_ratings(easel.bundle, REVIEWERS)
            show.print_tier(easel.bundle)
        return easel, {
            name: {one.episode_id: one.score for one in scores} for name, scores in given.items()
        }

    def _look_up(self, certified: Mapping[str, Certified]) -> JsonObject:
        """Show what the service says to anybody; return construct → how far a router trusts it."""
        pages = self.pages
        pages.begin("What anybody may look up, and how far a router trusts them")
        certificates = [one.certificate for one in certified.values()]
        routing = {name: self._routing(name) for name in certified}
        with pages.part(View.WHOLE):
            show.print_look_up(certificates)
            echo("")
            show.print_routing(routing.values())
        with pages.part(View.SHORT):
            show.print_trust(certificates, routing)
        return {**routing}

    def _watch_log(self) -> Watched:
        """Read the service's log as a monitor does, with the keys that the service shows."""
        self.anybody.download("/.well-known/echelon/trust.json", self.place.trust)
        watched = watch_log(f"{self.address}{BASE}/log", self.place)
        with self.pages.part(View.BOTH):
            show.print_watched(watched)
        return watched

    def _started(self, template: JsonObject) -> DemoTheatre:
        theatre = DemoTheatre.created(self.people[AUTHOR], template)
        theatre.commit()
        theatre.run()
        return theatre

    def _shown(self, theatre: DemoTheatre) -> Certified:
        certified = fetch_evidence(self.anybody, theatre, self.place)
        with self.pages.part(View.WHOLE):
            show.print_requests(theatre.seen["id"], theatre.asked_since())
            print_certificate(certified.bundle)
        return certified

    def _baseline(self, template: JsonObject, construct_id: str) -> Certified:
        construct = ConstructRegistry.load(self.place.constructs).find(construct_id)
        version = construct_version(construct)
        other = replace_construct(template, construct_id, version=version)
        return fetch_evidence(self.anybody, self._started(other), self.place)

    def _routing(self, construct_id: str) -> dict[str, Any]:
        path = f"/constructs/{construct_id}/routing"
        return self.anybody.get(path, declared_review="skip").document


def _claim(author: ServiceClient, place: DemoPlace) -> None:
    """Claim the constructs, and confirm them as the operator; a second demo finds them so."""
    for construct_id in CLAIMED:
        author.post("/constructs", {"construct_id": construct_id}, expected=TAKEN)
    own = author.get("/constructs").document["constructs"]
    if any(one["confirmed_at"] is None for one in own):
        confirm_constructs(place, CLAIMED, owner=AUTHOR)


def check_forgery(bundle: Path, *, scratch: Path) -> CheckReport:
    """Check a copy of `bundle`, made in the folder `scratch`, with one bit of it flipped."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
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
