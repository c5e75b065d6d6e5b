"""judge/1: how well turns are argued, as a language model judges them.

A generator yields requests and is sent what came of them, so that recorded exchanges come to the
same result again. Its requests follow from the blind projection alone, and no answer can make it
raise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn, cast

from theatre.debate.blind import BlindDebate, blind
from theatre.debate.errors import JudgementRecordError
from theatre.debate.evaluators.results import Evaluation, TurnFinding, mean, rate
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
from theatre.engine.canonical_json import JsonObject, canonical_bytes, canonical_sha256
from theatre.engine.errors import UnaskedError
from theatre.engine.models import Judge, ScorerKind, ask_judge, replay_judgement
from theatre.judging.messages import answered_by
from theatre.judging.rubrics import Asking

NAME = "judge/1"

NO_USABLE_ANSWER, NO_ARGUMENT = "NO_USABLE_ANSWER", "NO_ARGUMENT"


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
    if not isinstance(config, dict) or not RUBRICS.knows(config):
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
    """Ask about one turn after the other; return the result of the answers.

    A turn without a usable answer has no figures, and then no mean has a value: what is left
    would be a choice among turns.
    """
    counted = _Counted(len(debate.turns))
    for turn, data in zip(
        debate.turns, list_turns(debate), strict=False
    ):  # later turns are not shown
        # Of what is shown and of who is asked: what a debater wrote could choose the order, which
        # is no advantage to him, for options are verdicts and not debaters.
        seed = canonical_sha256([config, data])
        answer = yield RUBRICS.request(TURN, config, data, seed)
        counted.add(turn.turn_index, answer)
    return Evaluation(
        evaluator=NAME,
        kind=ScorerKind.JUDGED,
        config=config,
        summary=counted.summary(),
        turns=counted.rows,
        findings=counted.findings,
    )


@dataclass(slots=True)
class _Counted:
    """The result of the answers so far."""

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
        unjudged = sum(row.get("reason") == NO_USABLE_ANSWER for row in self.rows)
        follows = self._values("answer_follows")
        return {
            "turns_asked": len(self.rows),
            "turns_not_asked": self.turns - len(self.rows),
            "unjudged_turns": unjudged,
            "validity_mean": None if unjudged else mean(self._values("validity")),
            "credibility_mean": None if unjudged else mean(self._values("credibility")),
            "answer_follows_rate": None if unjudged else rate(int(sum(follows)), len(follows)),
            "models": dict(sorted(self.models.items())),
        }

    def _values(self, name: str) -> list[float]:
        return [cast("float", row[name]) for row in self.rows if row.get(name) is not None]


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
