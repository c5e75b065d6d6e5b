"""PRODUCT_EASEL_REQUESTS_V1 for real, and what became of each request that was signed off."""

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from tests.theatre.easel_runs import CHAIN, FIXTURES, easel_adapters
from tests.theatre.runs import Finished, Stage
from tests.theatre.test_fakes import SHIPPED, Shipped
from theatre.engine.canonical_json import JsonObject, parse_object

NAME = "product_easel_requests_v1"
TEMPLATE = parse_object((FIXTURES / "templates" / f"{NAME}.json").read_bytes())
WRITTEN = FIXTURES / "ground_truth" / "easel_requests"
LABELS = FIXTURES / "ground_truth" / "product_easel_requests_inscribe_v1.jsonl"
VOCABULARY = json.loads((FIXTURES / "ground_truth" / "easel" / "vocabulary.json").read_bytes())
SLOT = {entry["term"]: str(entry["slot"]) for entry in VOCABULARY["terms"]}
PROJECTS = ("brindle", "carrack", "hollin", "pippin", "lockgate", "wickery")
EPISODES = 48
PER_EPISODE = "scores/per_episode.jsonl"
FAKE = Shipped(
    construct_id="easel_requests",
    fake="easel_fake.py",
    episodes=EPISODES,
    earned=(),
    constructs=CHAIN,
    changes=SHIPPED["easel"].changes,
)

Object = dict[str, Any]
Outcome = Literal["right", "another", "outside", "unheard"]


def run_requests(folder: Path, *, template: JsonObject = TEMPLATE) -> Finished:
    """Run the shipped template with Easel, Artisan and Mint."""
    return Stage(folder, template, data=FIXTURES).run(easel_adapters())


def run_fake(folder: Path, mode: str) -> Finished:
    """Run the template with a fake in the place of all three."""
    return FAKE.run(folder / "run", FAKE.registry(folder, mode))


@dataclass(frozen=True, slots=True)
class Asked:
    """One episode as it went: what was written, expected and answered."""

    brief: Object
    episode: Object
    label: Object
    answers: Mapping[str, Object]
    scores: Mapping[str, float]

    @property
    def is_heard(self) -> bool:
        """Whether Artisan inscribed what the requests come to, and logged it."""
        inscribed = self.answers["artisan"]
        return all(
            _unordered(inscribed[part]) == _unordered(self.label[part])
            for part in ("direction", "overrides")
        )


def _unordered(value: object) -> object:
    if isinstance(value, dict):
        return {name: _unordered(one) for name, one in value.items()}
    return sorted(map(str, value)) if isinstance(value, list) else value


def asked(finished: Finished) -> Iterator[Asked]:
    """Yield the episodes of a run with the briefs as they were written."""
    labels = {
        line["episode_id"]: line["label"]
        for line in map(json.loads, LABELS.read_bytes().splitlines())
    }
    scores = {line["episode_id"]: line["scores"] for line in finished.lines(PER_EPISODE)}
    lines = finished.lines("ground_truth/dataset.jsonl")
    for seq, (brief, line) in enumerate(zip(_briefs(), lines, strict=True), start=1):
        episode = cast("Object", line)
        name = episode["episode_id"]
        given = cast("Mapping[str, float]", scores[name])
        yield Asked(brief, episode, labels[name], _answers(finished, seq), given)


def _briefs() -> Iterator[Object]:
    for project in PROJECTS:
        text = (WRITTEN / "briefs" / f"{project}.toml").read_text(encoding="utf-8")
        yield from tomllib.loads(text)["brief"]


def _answers(finished: Finished, seq: int) -> dict[str, Object]:
    calls = [cast("Any", call) for call in finished.calls(seq) if call["repeat"] == 0]
    return {c["construct_id"]: c["attempts"][-1]["response"]["output_data"] for c in calls}


def outcomes(one: Asked) -> Iterator[tuple[Object, Outcome]]:
    """Yield the requests of an episode that were signed off, and what Artisan made of each.

    `right`: the term holds and exactly the overrides that follow are logged. Else by what is logged
    for it: `another` term, something `outside` the vocabulary, or nothing of either (`unheard`).
    """
    for request in one.brief["requests"]:
        if request["signed_off"]:
            yield request, _outcome(request, one)


def _outcome(request: Object, one: Asked) -> Outcome:
    term = request.get("asks", "unlisted")
    slot = request.get("asks_unlisted") or SLOT[term]
    name = f"{slot.partition('.')[0]}/{term}"
    logged, ought = (
        {(o["tdr"], o["term"]) for o in side["overrides"] if o["reason"] == request["text"]}
        for side in (one.answers["artisan"], one.label)
    )
    wanted = [want.partition("/")[2] for want in one.answers["artisan"]["direction"]["we_want"]]
    settled = [want for want in wanted if SLOT[want] == slot]
    if logged == ought and settled == [term][: term != "unlisted"]:
        return "right"
    others = {found for _, found in logged} - {name}
    if any(found.endswith("/unlisted") for found in others):
        return "outside"
    return "another" if others else "unheard"
