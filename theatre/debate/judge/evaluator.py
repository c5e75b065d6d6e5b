"""judge/1: how well turns are argued, as a language model judges them.

A generator yields requests and is sent what came of them, so that recorded exchanges come to the
same result again. Its requests follow from the blind projection alone, and no answer can make it
raise.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NoReturn, cast

from theatre.debate.blind import BlindDebate, blind
from theatre.debate.errors import JudgementRecordError
from theatre.debate.evaluators.results import Evaluation, TurnFinding, mean
from theatre.debate.judge.questions import (
    CREDIBILITY,
    FOLLOWS,
    RUBRICS,
    RUNGS,
    TURN,
    VALIDITY,
    list_turns,
)
from theatre.debate.validation import DebateArtefact
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, canonical_sha256
from theatre.engine.errors import UnaskedError
from theatre.engine.models import Judge, ScorerKind, ask_judge, judges_of, replay_judgement
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.scoring.ratings import agreement
from theatre.judging.messages import answered_by
from theatre.judging.panel import SplitError, panel_passes, panel_schema, settle, split_of
from theatre.judging.rubrics import Asking

NAME = "judge/1"

NO_USABLE_ANSWER, NO_ARGUMENT = "NO_USABLE_ANSWER", "NO_ARGUMENT"
JUDGES_DIFFER = "JUDGES_DIFFER"


def probe(provider: str, model: str, temperature: int | None) -> JsonObject:
    """Return a short request of the kind that a judge is sent, of which nothing is stored."""
    said: JsonObject = {"speaker": 1, "action": "HOLD", "text": "HOLD, for nothing is known yet."}
    data: JsonObject = {"turn": said, "earlier": [], "earlier_omitted": 0}
    config = RUBRICS.committed(model, temperature=temperature, provider=provider)
    return RUBRICS.request(TURN, config, data, "")


async def evaluate(artefact: DebateArtefact, config: JsonObject, judge: Judge) -> JsonObject:
    """Ask `judge` about every turn; return the result as a document that holds the exchanges.

    Raises what the judge raises: then there is no result.
    """
    evaluation, exchanges = await ask_judge(judgement(blind(artefact.debate), config), judge)
    return _document(artefact, evaluation, exchanges)


def replay(artefact: DebateArtefact, recorded: JsonObject) -> JsonObject:
    """Return what the exchanges of a `recorded` result come to, which must be that result.

    Raises JudgementRecordError where they are about another artefact, were asked for in another
    way, or come to something else.
    """
    if recorded.get("artefact_sha256") != artefact.sha256:
        _refuse(f"a record about {artefact.sha256}", recorded.get("artefact_sha256"))
    config, exchanges = recorded.get("config"), recorded.get("exchanges")
    if not isinstance(config, dict) or not _is_known(config):
        wanted = canonical_bytes(RUBRICS.committed("…", temperature=None)).decode()
        _refuse(f"a configuration such as {wanted}", config)
    if not isinstance(exchanges, list) or not all(isinstance(one, dict) for one in exchanges):
        _refuse("exchanges as a list of objects", type(exchanges).__name__)
    objects = cast("list[JsonObject]", exchanges)
    try:
        evaluation = replay_judgement(judgement(blind(artefact.debate), config), objects)
    except UnaskedError as error:
        raise JudgementRecordError(f"{error}: this record is not of this debate") from error
    result = _document(artefact, evaluation, objects)
    if canonical_bytes(result) != canonical_bytes(recorded):
        differing = sorted(
            name for name in {*result, *recorded} if result.get(name) != recorded.get(name)
        )
        _refuse("what the recorded exchanges come to", f"another {', '.join(differing)}")
    return result


def judgement(debate: BlindDebate, config: JsonObject) -> Asking[Evaluation]:
    """Ask about one turn after the other, each judge of a panel in turn; return the result.

    A turn without a usable answer, or about which judges differ where the rule leaves that open,
    has no figures, and then no mean has a value: what is left would be a choice among turns.
    """
    shown = [
        (turn.turn_index, data)
        for turn, data in zip(debate.turns, list_turns(debate), strict=False)
    ]  # later turns are not shown

    def ask(judge: JsonObject, _: str) -> Asking[_Counted]:
        counted = _Counted(len(debate.turns))
        for turn_index, data in shown:
            # Of what is shown and of who is asked: what a debater wrote could choose the order,
            # which is no advantage to him, for options are verdicts and not debaters.
            seed = canonical_sha256([judge, data])
            counted.add(turn_index, (yield RUBRICS.request(TURN, judge, data, seed)))
        return counted

    judges = yield from panel_passes(_params(config), "", ask)
    is_panel = len(judges) > 1
    whole = _together(split_of(_params(config)), judges) if is_panel else judges[0]
    return Evaluation(
        evaluator=NAME,
        kind=ScorerKind.JUDGED,
        config=config,
        summary=whole.summary() | (_apart(config, judges) if is_panel else {}),
        turns=whole.rows,
        findings=whole.findings,
    )


def _is_known(config: JsonObject) -> bool:
    if "judges" in config:
        return not SchemaRegistry().validate_inline(panel_schema(RUBRICS), config)
    return RUBRICS.knows(config)


def _params(config: JsonObject) -> JsonObject:
    return {"panel" if "judges" in config else "judge": config}


@dataclass(slots=True)
class _Counted:
    turns: int
    rows: list[JsonObject] = field(default_factory=list)
    findings: list[TurnFinding] = field(default_factory=list)
    models: Counter[str] = field(default_factory=Counter)

    def add(self, turn_index: int, answer: JsonObject) -> None:
        """Take what came of the request about one turn."""
        model, said = answered_by(answer), RUBRICS.read(TURN, answer)
        self.models.update([model] if model else [])
        if said is None:
            self.rows.append({"turn_index": turn_index, "reason": NO_USABLE_ANSWER})
            return
        self.rows.append({"turn_index": turn_index, **_figures(said)})
        self.findings += [
            TurnFinding(turn_index=turn_index, code=code, detail="as the judge finds")
            for code in sorted(set(cast("list[str]", said["faults"])))
        ]

    def summary(self) -> JsonObject:
        return {
            "turns_asked": len(self.rows),
            "turns_not_asked": self.turns - len(self.rows),
            "unjudged_turns": sum(row.get("reason") == NO_USABLE_ANSWER for row in self.rows),
            **self.means(),
            "models": dict(sorted(self.models.items())),
        }

    def means(self) -> JsonObject:
        is_whole = all(row.get("reason") in {None, NO_ARGUMENT} for row in self.rows)
        return {
            mean_name: mean(self.values(name)) if is_whole else None for name, mean_name in _MEANS
        }

    def values(self, name: str) -> list[float]:
        return [cast("float", row[name]) for row in self.rows if row.get(name) is not None]


_MEANS = (
    ("validity", "validity_mean"),
    ("credibility", "credibility_mean"),
    ("answer_follows", "answer_follows_rate"),
)


def _together(split: str, judges: Sequence[_Counted]) -> _Counted:
    seen = Counter((one.turn_index, one.code) for judge in judges for one in judge.findings)
    return _Counted(
        turns=judges[0].turns,
        rows=[_settled(split, rows) for rows in zip(*(one.rows for one in judges), strict=True)],
        findings=[
            TurnFinding(turn_index=at, code=code, detail=f"as {n} of {len(judges)} judges find")
            for (at, code), n in seen.items()
        ],
        models=sum((one.models for one in judges), Counter()),
    )


def _settled(split: str, rows: Sequence[JsonObject]) -> JsonObject:
    turn: JsonObject = {"turn_index": rows[0]["turn_index"]}
    if any(row.get("reason") == NO_USABLE_ANSWER for row in rows):
        return {**turn, "reason": NO_USABLE_ANSWER}
    rungs = {cast("str | None", row["pearl_rung"]) for row in rows}
    try:
        figures = {name: _settle(split, [row[name] for row in rows]) for name, _ in _MEANS}
    except SplitError:
        return {**turn, "reason": JUDGES_DIFFER}
    # A rung is no number: it stands where all name the same.
    return {**turn, **figures, "pearl_rung": rungs.pop() if len(rungs) == 1 else None}


def _settle(split: str, values: Sequence[JsonValue]) -> float | None:
    votes = [Fraction(cast("float", value)) for value in values if value is not None]
    if split == "unscored" and 0 < len(votes) < len(values):
        raise SplitError
    return float(settle(split, votes)) if votes else None


def _apart(config: JsonObject, judges: Sequence[_Counted]) -> JsonObject:
    """Return what the summary of a panel says besides: each judge, and how far they agree."""
    named = judges_of(_params(config))
    alphas: JsonObject = {}
    for name, _ in _MEANS:
        items = zip(*([row.get(name) for row in one.rows] for one in judges), strict=True)
        rated = [
            [Fraction(cast("float", vote)) for vote in item] for item in items if None not in item
        ]
        alphas[name] = agreement(rated)
    return {
        "split_turns": sum(
            row.get("reason") == JUDGES_DIFFER for row in _together("unscored", judges).rows
        ),
        "judges": [
            {"provider": who["provider"], "model": who["model"], **one.means()}
            for who, one in zip(named, judges, strict=True)
        ],
        "agreement": alphas,
    }


def _figures(said: JsonObject) -> JsonObject:
    validity = VALIDITY[cast("str", said["validity"])]
    reason: JsonObject = {"reason": NO_ARGUMENT} if validity is None else {}
    # What argues nothing rests on nothing: it has no credibility, whatever the judge says of it.
    credibility = None if reason else CREDIBILITY[cast("str", said["credibility"])]
    return {
        "validity": validity,
        "credibility": credibility,
        "answer_follows": FOLLOWS[cast("str", said["answer_follows"])],
        "pearl_rung": RUNGS[cast("str", said["rung"])],
        **reason,
    }


def _document(
    artefact: DebateArtefact, evaluation: Evaluation, exchanges: Sequence[JsonObject]
) -> JsonObject:
    whole = replace(evaluation, exchanges=exchanges)
    return whole.as_document(artefact_sha256=artefact.sha256)


def _refuse(expected: str, seen: object) -> NoReturn:
    raise JudgementRecordError(f"expected {expected}, got {seen!s:.200}")
