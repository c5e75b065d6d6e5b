"""Debates before a panel: each judge is asked, and a committed rule settles what they say."""

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.debate.debate_theatres import checked_debates, failures
from tests.theatre.debate.debates import a_debate, as_bytes
from tests.theatre.debate.judged_debates import Rule, answered, by_tags, verdicts
from tests.theatre.debate.test_debate_judge import FERRY, again, kept
from tests.theatre.forged_bundle import document, failed_ids, load, store
from tests.theatre.forked_echelon import forked
from tests.theatre.oracles.loopback import LoopbackServer, serving
from tests.theatre.record_edits import forged, of_record, records_in
from tests.theatre.runs import with_changes
from tests.theatre.thinned import FIXTURES, thinned
from tests.theatre.verification.messages_server import KEY, MessagesService
from theatre.debate.blind import blind
from theatre.debate.errors import JudgementRecordError
from theatre.debate.judge import evaluator
from theatre.debate.judge.questions import RUBRICS
from theatre.debate.judge.scorer import MAX_JUDGED, SCORER, judgement
from theatre.debate.validation import read_debate
from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object
from theatre.engine.models import ScoringCase, replay_judgement
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.scoring.ratings import interval_alpha
from theatre.judging.panel import SPLITS, panel_of

EPISODES, TURNS = 3, 4
TEAM = FIXTURES / "templates" / "product_debate_team_v1.json"


def sound(_: dict[str, Any]) -> dict[str, Any]:
    return verdicts()


def poor(_: dict[str, Any]) -> dict[str, Any]:
    return verdicts("NONSENSE", validity="unsound", credibility="poor", rung="none")


def silent(_: dict[str, Any]) -> dict[str, Any]:
    return verdicts(validity="no_argument", answer_follows="not_stated")


def unusable(_: dict[str, Any]) -> dict[str, Any]:
    return {"reason": None, "body": "I would rather not."}


def at(server: LoopbackServer, provider: str) -> dict[str, str]:
    origin = f"http://127.0.0.1:{server.port}"
    return {f"{provider}_BASE_URL": origin, f"{provider}_API_KEY": KEY}


def panel(split: str, *models: str, **more: JsonValue) -> JsonObject:
    return panel_of([RUBRICS.committed(one, temperature=None) | more for one in models], split)


def evaluated(split: str, *rules: Rule) -> dict[str, Any]:
    """Return the result of judges by these rules, which its own record comes to again."""
    artefact = read_debate(as_bytes(a_debate()))
    config = panel(split, *"abcde"[: len(rules)])
    asking = evaluator.judgement(blind(artefact.debate), config)
    result, exchanges = answered(asking, dict(zip("abcde", rules, strict=False)))
    whole: Any = {**result.as_document(artefact_sha256=artefact.sha256), "exchanges": exchanges}
    assert evaluator.replay(artefact, whole) == whole
    return dict(whole)


@pytest.mark.parametrize(
    ("split", "validity", "follows"),
    [("mean", 2 / 3, 1), ("majority", 1, 1), ("unanimous", 0, 1), ("unscored", None, None)],
)
def test_the_rule_settles_each_figure_of_a_turn(
    split: str, validity: float | None, follows: float | None
) -> None:
    result = evaluated(split, sound, poor, sound)
    assert [row.get("validity") for row in result["turns"]] == [pytest.approx(validity)] * 3
    summary = result["summary"]
    assert summary["answer_follows_rate"] == follows
    assert (summary["split_turns"], summary["unjudged_turns"]) == (3, 0)
    assert [one["validity_mean"] for one in summary["judges"]] == [1, 0, 1]
    assert {one["detail"] for one in result["findings"]} == {"as 1 of 3 judges find"}
    rungs = {row.get("pearl_rung") for row in result["turns"]}
    assert rungs == {None}  # two say L2, one says none
    assert summary["agreement"]["validity"]["reason"] == "fewer-than-10-items"


@pytest.mark.parametrize("split", SPLITS)
def test_one_judge_without_a_usable_answer_leaves_the_turn_unjudged(split: str) -> None:
    result = evaluated(split, sound, sound, unusable)
    assert {row["reason"] for row in result["turns"]} == {"NO_USABLE_ANSWER"}
    assert result["summary"]["validity_mean"] is None


def test_whether_a_turn_argues_at_all_is_a_matter_that_judges_differ_about() -> None:
    assert evaluated("mean", sound, silent)["turns"][0]["validity"] == 1
    assert evaluated("unscored", sound, silent)["turns"][0]["reason"] == "JUDGES_DIFFER"
    assert evaluated("unscored", silent, silent)["turns"][0]["validity"] is None


def test_judges_of_two_providers_are_asked_and_their_record_comes_to_the_same(
    tmp_path: Path,
) -> None:
    one, other = MessagesService(by_tags), MessagesService(poor, provider="openai")
    with serving(one.respond) as first, serving(other.respond) as second:
        more = {**at(first, "ANTHROPIC"), **at(second, "OPENAI")}
        models = ("--model", "ada", "--model", "openai:bo")
        given = ("debate", "evaluate", FERRY, "--evaluator", "judge", *models)
        answer = forked(*given, "--judge-split", "mean", home=tmp_path / "home", more=more)
    assert answer.code == 0, answer.stderr
    (result,) = answer.document["results"]
    assert result["config"]["split"] == "mean"
    asked = [*one.requests[1:], *other.requests[1:]]  # after one that says what it takes
    assert [exchange["request"] for exchange in result["exchanges"]] == asked
    assert result["summary"]["models"] == {"ada": 2, "bo": 2}
    assert "ada and bo judges: 4 calls" in answer.stderr
    offline = again(tmp_path, kept(tmp_path, answer.document))
    assert (offline.code, offline.stdout) == (0, answer.stdout), offline.stderr


def test_a_record_of_other_judges_or_of_another_rule_is_refused() -> None:
    for change in ({"split": "mean"}, {"judges": panel("majority", *"abd")["judges"]}):
        whole = evaluated("majority", sound, poor, sound)
        whole["config"] |= change
        with pytest.raises(JudgementRecordError):
            evaluator.replay(read_debate(as_bytes(a_debate())), whole)
    for split, rules in (("loudest", (sound, sound)), ("majority", (sound, sound))):
        with pytest.raises(JudgementRecordError, match="a configuration such as"):
            evaluated(split, *rules)


# In a theatre: the judges vote on each turn of an episode's debate.


def case(answer: JsonValue, **params: JsonValue) -> ScoringCase:
    return ScoringCase(
        input_data={}, expected=None, answer=answer, params=params, hops={}, judge_seed="seed"
    )


def scored(answer: JsonValue, figure: str, split: str, *rules: Rule) -> tuple[Any, int]:
    """Return the score by judges of these rules, and how many calls that took."""
    names = "abcde"[: len(rules)]
    alone: JsonObject = {"judge": RUBRICS.committed("a", temperature=None)}
    who: JsonObject = {"panel": panel(split, *names)} if split else alone
    given = case(answer, figure=figure, field="debate", **who)
    assert not SchemaRegistry().validate_inline(SCORER.params_schema, given.params)
    found, exchanges = answered(judgement(given), dict(zip(names, rules, strict=True)))
    assert replay_judgement(judgement(given), exchanges) == pytest.approx(found, nan_ok=True)
    return found, len(exchanges)


@pytest.mark.parametrize(
    ("figure", "split", "rules", "score"),
    [
        ("validity", "", (by_tags,), 0),
        ("validity", "mean", (sound, poor), 0.5),
        ("validity", "majority", (sound, poor, poor), 0),
        ("credibility", "unanimous", (sound, poor), 0),
        ("answer_follows", "unanimous", (sound, poor), 1),
        ("validity", "unscored", (sound, poor), math.nan),
        ("validity", "mean", (sound, unusable), math.nan),
        # What argues nothing has no sources, and an answer that is not stated does not follow.
        ("credibility", "mean", (silent, silent), 0),
        ("answer_follows", "unscored", (silent, silent), 0),
    ],
)
def test_votes_on_turns_come_to_a_score(
    figure: str, split: str, rules: tuple[Rule, ...], score: float
) -> None:
    found, _ = scored(a_debate(), figure, split, *rules)
    assert found == pytest.approx(score, nan_ok=True)


def test_what_is_no_debate_and_turns_beyond_the_last_that_is_asked_about_count_nothing() -> None:
    assert scored({"turns": 3}, "validity", "mean", sound, sound) == (0, 0)
    first = a_debate()["turns"][0]
    turns = [{**first, "turn_id": f"t{n}", "turn_index": n} for n in range(2 * MAX_JUDGED)]
    assert scored(a_debate(turns=turns), "validity", "mean", sound, sound) == (0.5, 2 * MAX_JUDGED)


@pytest.mark.parametrize(
    ("who", "fits"),
    [
        (panel("majority", "a", "b", "c"), True),
        (panel("majority", "a", "b"), False),
        (panel("mean", "a"), False),
        (panel("mean", "a", "a"), False),
        (panel("mean", "a", "b", repeats=1), False),
        (panel("mean", "a", "b", prompts="0" * 64), False),
    ],
)
def test_a_panel_is_two_judges_to_five_of_these_rubrics(who: JsonObject, *, fits: bool) -> None:
    params: JsonObject = {"field": "debate", "figure": "validity"}
    one: JsonObject = {"judge": RUBRICS.committed("a", temperature=0)}
    for more, is_good in (({"panel": who}, fits), ({"panel": who, **one}, False), ({}, False)):
        found = SchemaRegistry().validate_inline(SCORER.params_schema, {**params, **more})
        assert (not found) is is_good


def panel_theatre(folder: Path, split: str, *models: str, step: int) -> Path:
    """Write the shipped theatre of teams, thinned, with a panel that judges its validity."""
    template: Any = thinned(parse_object(TEAM.read_bytes()), folder, step=step)
    judged: JsonObject = {
        "scorer": SCORER.name,
        "params": {"field": "debate", "figure": "validity", "panel": panel(split, *models)},
    }
    agreed: JsonObject = {
        "step_id": "agreed",
        "type": "deterministic_computation",
        "input_spec": {
            "computation": "debate_judge_agreement",
            "over": "episodes",
            "in_aggregate": True,
            "params": {"criteria_scorers": {"crit_gamma": judged}},
        },
    }
    programme = template["resolution_programme"]
    changes: dict[str, JsonValue] = {
        "/scoring/criteria_scorers/crit_gamma": judged,
        f"/scorer_pins/{SCORER.name}": SCORER.version,
        "/resolution_programme": [*programme[:-1], agreed, programme[-1]],
    }
    path = folder / "template.json"
    path.write_text(json.dumps(with_changes(template, changes)), encoding="utf-8")
    return path


def test_a_theatre_is_judged_by_its_panel_and_the_check_asks_all_of_it_again(
    tmp_path: Path,
) -> None:
    template = panel_theatre(tmp_path, "majority", "ada", "bo", "cy", step=40)
    service = MessagesService(sound, by_model={"cy": poor})
    with serving(service.respond) as server:
        more = at(server, "ANTHROPIC")
        answer = forked("theatre", "run", template, "--json", home=tmp_path / "home", more=more)
    assert answer.code == 0, answer.stdout + answer.stderr
    bundle = Path(answer.document["bundle_path"])
    report = checked_debates(bundle)
    assert (report.consistent, failed_ids(report), report.unavailable) == (True, set(), ())
    files = load(bundle)
    certificate: Any
    aggregate: Any
    certificate, aggregate = (
        document(files, name) for name in ("certificate.json", "scores/aggregate.json")
    )
    assert certificate["scores"]["crit_gamma"] == 1
    assert certificate["verification_tier"] == "UNVERIFIED"
    assert "measure-unqualified:crit_gamma" in certificate["caps"]
    agreed = aggregate["computed"]["agreed"]["criteria"]["crit_gamma"]
    assert [(one["model"], one["mean"]) for one in agreed["judges"]] == [
        *(("ada", 1), ("bo", 1), ("cy", 0))
    ]
    votes = [[Fraction(1), Fraction(1), Fraction(0)]] * (EPISODES * TURNS)
    assert (agreed["items"], agreed["split_items"]) == (len(votes), len(votes))
    assert agreed["agreement"]["value"] == pytest.approx(float(interval_alpha(votes) or 0))
    exchanges = [
        one for record in records_in(files).values() for one in record["judgements"]["crit_gamma"]
    ]
    assert [one["request"]["model"] for one in exchanges] == (
        ["ada"] * TURNS + ["bo"] * TURNS + ["cy"] * TURNS
    ) * EPISODES
    # The options stand in an order of its own for each judge and turn, by the coin.
    assert len({one["request"]["system"] for one in exchanges}) > len(exchanges) / 2
    assert len(service.requests) == len(exchanges)
    better = of_record("judgements", "crit_gamma", 2 * TURNS, "answer", to=exchanges[0]["answer"])
    for edit in (better, lambda record: record["judgements"]["crit_gamma"].pop()):
        bad = failures(store(forged(files, 1, edit), tmp_path / str(edit is better)))
        assert bad & {"invocations", "aggregate"}
