"""`echelon theatre hitl`: what people are shown, what they may give, and how a run goes on."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.cli.doubler import SERVED, write_module, write_theatre
from tests.theatre.echelon_process import Answer
from tests.theatre.forked_echelon import forked
from theatre.cli.hitl_command import read_scores
from theatre.engine.errors import ParseError
from theatre.files.run_journal import read_trail
from theatre.files.theatre_store import FileTheatreStore
from theatre.files.trust_home import TrustHome

RUBRIC = "Is the answer put well?\nThink of the reader."
PROGRAMME = [
    {"step_id": "call", "type": "construct_invocation", "construct_id": "doubler"},
    {"step_id": "taste", "type": "hitl_rubric"},
    {"step_id": "sum", "type": "aggregation"},
]
RATING = {
    "step_id": "taste",
    "rubric": RUBRIC,
    "scoring_scale": {"min": 0, "max": 10, "labels": {"10": "well", "0": "badly"}},
    "identity_separation": {"minimum_scorers": 2},
    "criterion_id": "right",
    "share": 0.25,
    "items": 2,
}

WHO = (
    "who       at least 2, each scores every item once; no author of the template or of a construct"
)
PEOPLE = (
    "people       taste: 0.600 by 2 on 2 answers, fewer-than-10-items; share 0.25 of right, "
    "machine 1.000"
)


@dataclass(frozen=True)
class Waiting:
    """A store with one theatre that waits for people."""

    home: Path
    run: Answer

    @property
    def theatre_id(self) -> str:
        return str(self.run.document["theatre_id"])

    def hitl(self, *arguments: str | Path) -> Answer:
        return forked("theatre", "hitl", self.theatre_id, *arguments, home=self.home)

    def shown(self) -> dict[str, Any]:
        return self.hitl("--json").document

    @property
    def items(self) -> list[str]:
        return [item["episode_id"] for item in self.shown()["items"]]

    def go_on(self, *options: str) -> Answer:
        return forked("theatre", "run", self.theatre_id, *options, home=self.home)

    def events(self, event_type: str) -> list[dict[str, Any]]:
        folder = FileTheatreStore(self.home).folder(self.theatre_id)
        trail = read_trail(folder, self.theatre_id)
        return [dict(e["detail"]) for e in trail if e["event_type"] == event_type]  # type: ignore[arg-type]  # an object

    def all_of(self, score: float) -> Path:
        lines = ({"episode_id": item, "score": score} for item in self.items)
        return score_file(self.home.parent, *lines)


def score_file(folder: Path, *lines: object) -> Path:
    text = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path = folder / "scores.jsonl"
    path.write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Waiting:
    """A theatre at its rubric; Ada wrote the template, Bob the construct. Copy it before use."""
    folder = tmp_path_factory.mktemp("hitl")
    version = write_module(folder, SERVED)
    (folder / "constructs.toml").write_text(f'{SERVED}author = "Bob Builder"\n', encoding="utf-8")
    template = write_theatre(
        folder,
        adapter_type="http",
        version=version,
        resolution_programme=PROGRAMME,
        hitl_steps=[RATING],
        metadata={"author": "Ada Author"},
    )
    run = forked("theatre", "run", template, "--json", home=folder / "home")
    return Waiting(folder / "home", run)


@pytest.fixture
def waiting(kept: Waiting, tmp_path: Path) -> Waiting:
    copy = Waiting(shutil.copytree(kept.home, tmp_path / "home"), kept.run)
    issuer = TrustHome(shutil.copytree(kept.home.parent / "issuer", tmp_path / "issuer"))
    known = issuer.open_commitments.find(copy.theatre_id)
    assert known is not None, "expected a theatre that waits to be open in the log"
    folder = FileTheatreStore(copy.home).folder(copy.theatre_id).resolve()
    issuer.open_commitments.keep(known._replace(folder=folder))
    return copy


def error_of(answer: Answer) -> tuple[int, str]:
    return answer.code, answer.document["error"]["code"]


def test_a_run_that_waits_is_incomplete_and_says_what_to_do(waiting: Waiting) -> None:
    document = waiting.run.document
    assert waiting.run.code == 8
    assert [document[name] for name in ("state", "outcome", "outcome_reason", "bundle_path")] == [
        *("SETTLING", "pending", "pending_hitl:taste", None)
    ]
    again = waiting.go_on("--quiet")
    assert again.code == 8
    assert again.stdout.splitlines()[-2:] == [
        f"next      echelon theatre hitl {waiting.theatre_id}: people score, by its rubric",
        f"then      echelon theatre run {waiting.theatre_id}",
    ]
    show = forked("theatre", "show", waiting.theatre_id, "--json", home=waiting.home)
    moved = {"evidence_path": str(waiting.home / "theatres" / waiting.theatre_id)}
    assert (show.code, show.document) == (0, document | moved)
    assert (document["log"]["index"], document["log"]["closed_at"]) == (0, None)


def test_people_are_shown_the_rubric_and_the_answers_and_nothing_that_leads_them(
    waiting: Waiting,
) -> None:
    document = waiting.shown()
    items = document.pop("items")
    opened_at = document.pop("opened_at")
    assert opened_at.endswith("Z")
    assert document == {
        "theatre_id": waiting.theatre_id,
        "step_id": "taste",
        "answered": [],
        "complete_scorers": 0,
        "minimum_scorers": 2,
        "enough": False,
        "rubric": RUBRIC,
        "scoring_scale": {"min": 0, "max": 10, "labels": {"0": "badly", "10": "well"}},
        "scorer_must_not_be_author": True,
        "timeout_seconds": None,
    }
    (opened,) = waiting.events("hitl_opened")
    assert [item["episode_id"] for item in items] == opened["items"]
    numbers = [int(item["episode_id"][1:]) for item in items]
    assert items == [
        {
            "episode_id": f"e{number}",
            "input_data": {"number": number},
            "answers": {"doubler": {"result": 2 * number}},
        }
        for number in numbers
    ]


def test_for_a_person_it_is_plain_text(waiting: Waiting) -> None:
    first, second = waiting.items
    waiting.hitl("--scorer", "Grace", "--item", first, "--score", "9.5")
    lines = waiting.hitl().stdout.splitlines()
    begin = [line for line in lines if line and not line.startswith(("item", "  "))]
    assert begin == [
        f"theatre   {waiting.theatre_id}, step taste",
        "rubric    Is the answer put well?",
        "scale     0 to 10",
        WHO,
        "answered  0 of 2 people, every item",
    ]
    assert "          Think of the reader." in lines
    assert "          Grace: 1 of 2" in lines
    assert lines.index("          0  badly") < lines.index("          10  well")
    assert lines[lines.index(f"item      {second}") + 1] == "  input:"
    assert "9.5" not in [word.strip(",") for line in lines for word in line.split()]


def test_two_people_score_and_the_run_goes_on_to_its_certificate(waiting: Waiting) -> None:
    first, second = waiting.items
    one = waiting.hitl("--scorer", "Grace", "--item", first, "--score", "8", "--comment", "fine")
    assert (one.code, one.stdout.splitlines()[0]) == (0, "recorded  1")
    two = waiting.hitl("--scorer", "grace", "--item", second, "--score", "10", "--json")
    assert two.document == {
        "theatre_id": waiting.theatre_id,
        "recorded": 1,
        "step_id": "taste",
        "answered": [{"scorer": "Grace", "items": 2, "of": 2}],
        "complete_scorers": 1,
        "minimum_scorers": 2,
        "enough": False,
    }
    assert waiting.go_on().code == 8
    file = waiting.hitl("--scorer", "Edsger", "--scores", waiting.all_of(3))
    assert file.stdout.splitlines() == [
        "recorded  2",
        "answered  2 of 2 people, every item",
        "          Grace: 2 of 2",
        "          Edsger: 2 of 2",
        f"next      echelon theatre run {waiting.theatre_id}",
    ]
    run = waiting.go_on("--json")
    assert [run.document["log"][name] for name in ("closed_at", "void_reason")] == [1, None]
    # Three quarters of 1 and a quarter of (9/10 + 3/10) / 2.
    assert (run.code, run.document["outcome"], run.document["scores"]) == (
        *(0, "certified"),
        {"right": 0.9},
    )
    bundle = Path(run.document["bundle_path"])
    stored = (bundle / "hitl" / "taste.jsonl").read_bytes()
    lines = [json.loads(line) for line in stored.splitlines()]
    assert [(line["scorer"], line["score"], line["comment"]) for line in lines] == [
        *(("Grace", 8, "fine"), ("grace", 10, None), ("Edsger", 3, None), ("Edsger", 3, None))
    ]
    show = forked("theatre", "show", waiting.theatre_id, home=waiting.home)
    told = [line for line in show.stdout.splitlines() if line.startswith("people")]
    assert told == [PEOPLE]


@pytest.mark.parametrize("author", ["ADA AUTHOR ", " bob builder"])
def test_authors_of_template_and_construct_are_refused(waiting: Waiting, author: str) -> None:
    item = waiting.items[0]
    answer = waiting.hitl("--scorer", author, "--item", item, "--score", "10", "--json")
    assert error_of(answer) == (5, "human-score-refused")
    assert answer.document["error"]["message"].startswith("scorer-is-author: expected somebody")
    assert waiting.events("human_score_refused") == [
        {
            "step_id": "taste",
            "scorer": author.strip(),
            "episode_id": item,
            "score": 10,
            "code": "scorer-is-author",
        }
    ]


def test_of_a_file_all_scores_are_stored_or_none(waiting: Waiting) -> None:
    first, second = waiting.items
    path = score_file(
        waiting.home.parent,
        {"episode_id": first, "score": 4},
        {"episode_id": second, "score": 11},
        {"episode_id": "e0", "score": 4},
    )
    answer = waiting.hitl("--scorer", "Grace", "--scores", path)
    assert (answer.code, answer.stdout) == (5, "")
    assert answer.stderr.splitlines() == [
        "error (human-score-refused): score-off-scale: expected a number from 0 to 10, got 11",
        "not-an-item: expected one of the 2 items of the step, got 'e0'",
    ]
    assert waiting.events("human_score") == []
    assert len(waiting.events("human_score_refused")) == 2


@pytest.mark.parametrize("score", ["nan", "1e400"])
def test_a_score_that_is_none_is_refused(waiting: Waiting, score: str) -> None:
    answer = waiting.hitl("--scorer", "Grace", "--item", waiting.items[0], "--score", score)
    assert answer.code == 5
    assert len(waiting.events("human_score_refused")) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{nonsense", "line 2: "),
        ('{"episode_id": "e1", "score": 1, "score": 2}', "line 2: "),
        ('{"episode_id": "e1", "score": NaN}', "line 2: "),
        (
            {"episode_id": "e1", "score": 1, "scorer": "Bob"},
            "line 2: expected episode_id, score and maybe comment, got unknown scorer",
        ),
        ({"score": 1}, "line 2: expected episode_id, score and maybe comment, got no episode_id"),
        ({"episode_id": 1, "score": 1}, "line 2: expected episode_id and comment as text"),
        (
            {"episode_id": "e1", "score": 1, "comment": 7},
            "line 2: expected episode_id and comment as text",
        ),
    ],
)
def test_a_file_that_holds_something_else_is_refused_with_the_line(
    tmp_path: Path, line: object, message: str
) -> None:
    with pytest.raises(ParseError) as caught:
        read_scores(score_file(tmp_path, {"episode_id": "e1", "score": 1}, line))
    assert str(caught.value).startswith(message)


def test_a_file_without_scores_is_refused(waiting: Waiting) -> None:
    empty = score_file(waiting.home.parent, "")
    answer = waiting.hitl("--scorer", "Grace", "--scores", empty, "--json")
    assert error_of(answer) == (5, "not-strict-json")
    missing = waiting.hitl("--scorer", "Grace", "--scores", waiting.home / "none", "--json")
    assert error_of(missing) == (3, "not-found")


@pytest.mark.parametrize(
    "options",
    [
        ["--scorer", "Grace"],
        ["--scorer", "Grace", "--item", "e1"],
        ["--scorer", "Grace", "--score", "3"],
        ["--item", "e1", "--score", "3"],
        ["--comment", "well"],
        ["--scorer", "Grace", "--scores", "f", "--item", "e1"],
        ["--scores", "/dev/null"],
        ["--scorer", "Grace", "--item", "e1", "--score", "high"],
    ],
)
def test_options_that_belong_together_come_together(kept: Waiting, options: list[str]) -> None:
    assert error_of(kept.hitl(*options, "--json")) == (2, "usage")


def test_where_nobody_is_asked_it_says_so(waiting: Waiting) -> None:
    for scorer in ("Grace", "Edsger"):
        assert waiting.hitl("--scorer", scorer, "--scores", waiting.all_of(5)).code == 0
    assert waiting.go_on().code == 0
    assert error_of(waiting.hitl("--json")) == (6, "invalid-transition")
    late = waiting.hitl("--scorer", "Niklaus", "--item", "e1", "--score", "1", "--json")
    assert error_of(late) == (6, "invalid-transition")
    nowhere = forked("theatre", "hitl", "nonsense", "--json", home=waiting.home)
    assert error_of(nowhere) == (3, "not-found")
