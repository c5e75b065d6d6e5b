"""How a verification is scored: by the words of the diff, or by a judge with these as cross-check.

A provider is the part of the template that says how answers are scored. It makes no call: what a
judge is asked, and what is recorded of it, follows from the scorers that it commits to.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.errors import QualificationError
from theatre.engine.models import ANSWER, Scorer, exchanges_of, judges_of
from theatre.engine.rlmf_export import SealedBundle
from theatre.engine.scoring.measure_policy import Qualification
from theatre.engine.scoring.provider import at_path
from theatre.judging.panel import panel_of, split_of
from theatre.verification.judge.control_errors import COMPUTATION as CONTROL_ERRORS
from theatre.verification.judge.questions import METHODOLOGY
from theatre.verification.judge.scorer import AGREEMENT as JUDGE_AGREEMENT
from theatre.verification.judge.scorer import SCORER
from theatre.verification.judge.second_opinion import BEYOND, COMPUTATION
from theatre.verification.lexical import PRECISION, RECALL, REPLY_ACCURACY

# The judge in a verification certificate, and its second opinion.


_PARAMS = "scoring.criteria_scorers.precision.params"
_UNKNOWN = "unknown"
_COMMITTED = ("provider", "model", "temperature")


def find_origins(record: JsonObject) -> Iterator[str]:
    """Yield for each answer of a judge in an invocation record where it came from.

    Scheme, host and port only: the rest may be private to the operator of the judge.
    """
    for exchange in exchanges_of(record):
        yield _origin(cast("JsonObject", exchange[ANSWER]).get("origin"))


def _origin(recorded: JsonValue) -> str:
    try:
        parts = urlsplit(recorded if isinstance(recorded, str) else "")
    except ValueError:
        return _UNKNOWN
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}" if parts.scheme and host else _UNKNOWN


def certified_judge(sealed: SealedBundle, origins: Mapping[str, int]) -> JsonObject | None:
    """Return the committed judge and what its second opinion came to; None without a judge.

    `origins` counts the answers by address: a server there may call itself by the name of any
    model. `second_opinion`, and `controls`, the judge's errors on claims of known truth, are null
    where the programme has no such step, or did not complete it.
    """
    params = at_path(sealed.template, _PARAMS)
    judges = judges_of(params)
    if not judges or not isinstance(params, dict):
        return None
    temperatures = {cast("int | None", judge["temperature"]) for judge in judges}
    opinion, errors = (_computed(sealed, one.pin) for one in (COMPUTATION, CONTROL_ERRORS))
    return {
        "model": _names(judges),
        "temperature": temperatures.pop() if len(temperatures) == 1 else None,
        "repeats": judges[0]["repeats"],
        **({"panel": _panel(sealed, params)} if "panel" in params else {}),
        "origins": dict(sorted(origins.items())),
        "second_opinion": None
        if opinion is None
        else {"beyond": opinion[0]["beyond"], **opinion[1]},
        "controls": None if errors is None else errors[1]["criteria"],
    }


def _names(judges: Sequence[JsonObject]) -> str:
    """Return the models of the judges, as a certificate names who scored."""
    return " + ".join(cast("str", judge["model"]) for judge in judges)


def _panel(sealed: SealedBundle, params: JsonObject) -> JsonObject:
    """Return the judges of a panel, their rule, and how far they agree; null without that step."""
    agreed = at_path(sealed.aggregate, f"computed.{AGREEMENT}.criteria")
    return {
        "split": split_of(params),
        "judges": [{name: judge[name] for name in _COMMITTED} for judge in judges_of(params)],
        "agreement": agreed if isinstance(agreed, dict) else None,
    }


def _computed(sealed: SealedBundle, pin: str) -> tuple[JsonObject, dict[str, Any]] | None:
    settled = cast("list[dict[str, Any]]", sealed.resolution["steps"])
    committed = cast("list[dict[str, Any]]", sealed.template["resolution_programme"])
    steps = {step["step_id"]: step for step in committed}
    for step in settled:
        result = step["result"]
        if result.get("computation") == pin:
            return steps[step["step_id"]]["input_spec"]["params"], result["output"]
    return None


AGREEMENT = "judge_agreement"
"""The step that says how far the judges of a panel agree."""

SECOND_OPINION = "second_opinion"
"""The step that compares a judge with the words of the diff."""

CONTROLS = "judge_controls"
"""The step that counts what a judge said of claims whose truth is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringProvider:
    """How the criteria of a verification are scored, as its template commits to it."""

    scorer_version: str
    """The label that goes on the certificate: who scored."""
    methodology: str
    """The version of records, questions, ranking, prompts and scorers together."""
    criteria_human: str
    """The sentence that says by what."""
    measures: Mapping[str, str]
    """What the number of each criterion is, in words."""
    scorers: Sequence[Scorer]
    criteria_scorers: Mapping[str, JsonObject]
    """Criterion → scorer with parameters."""
    steps: Sequence[JsonObject] = ()
    """The steps of the programme that compute over what was scored."""
    aggregate_steps: Sequence[JsonObject] = ()
    """Those whose results stand next to the scores."""

    def measure(self, criterion: str) -> tuple[str, str, JsonObject]:
        """Return scorer, version and parameters of a criterion."""
        entry = self.criteria_scorers[criterion]
        versions = {scorer.name: scorer.version for scorer in self.scorers}
        name = cast("str", entry["scorer"])
        return name, versions[name], cast("JsonObject", entry["params"])

    def measured_by(self, qualification: Qualification) -> frozenset[str]:
        """Return the criteria whose measure a qualification is about.

        QualificationError where there is none, with what is other about precision.
        """
        misfits = {one: qualification.misfit(*self.measure(one)) for one in self.criteria_scorers}
        found = frozenset(criterion for criterion, why in misfits.items() if why is None)
        if not found:
            raise QualificationError(
                f"expected the qualification of a measure that scores, got: {misfits['precision']}"
            )
        return found


LEXICAL = ScoringProvider(
    scorer_version="lexical@2",
    methodology="lexical-2",
    criteria_human="By words of the diff: they do not tell whether what is said is true.",
    measures={
        "precision": "share of claims whose words occur in the change",
        "recall": "share of the expected changes whose words occur in the summary",
        "reply_accuracy": "how far numbers and names in the reply are the expected ones",
    },
    scorers=(PRECISION, RECALL, REPLY_ACCURACY),
    criteria_scorers={
        "precision": {
            "scorer": PRECISION.name,
            "params": {"field": "key_claims", "diff": "record.diff_content"},
        },
        "recall": {
            "scorer": RECALL.name,
            "params": {"field": "summary", "expected": "important_changes"},
        },
        "reply_accuracy": {
            "scorer": REPLY_ACCURACY.name,
            "params": {"field": "follow_up_response", "expected": "follow_up"},
        },
    },
)
"""By the words of the diff: deterministic, offline, a heuristic."""

JUDGED_MEASURES: Mapping[str, str] = {
    "precision": "share of claims that the model calls supported by the change",
    "recall": "share of the changes the model finds important that it finds in the summary",
    "reply_accuracy": "whether the model calls the reply right",
}
_JUDGED_PATHS: Mapping[str, Mapping[str, str]] = {
    "precision": {"field": "key_claims"},
    "recall": {"field": "summary", "expected": "important_changes"},
    "reply_accuracy": {
        "field": "follow_up_response",
        "expected": "follow_up",
        "question": "follow_up_question",
    },
}


def judged_scoring(
    *judges: JsonObject, controls: JsonObject, split: str | None = None
) -> ScoringProvider:
    """Return the scoring by committed judges, with the lexical one at weight 0.

    `split` is the rule of a panel, where there are several, and `controls` says how many claims
    of known truth each is asked about (`committed_controls`).
    """
    who: JsonObject = {"judge": judges[0]} if split is None else {"panel": panel_of(judges, split)}
    judged: dict[str, JsonObject] = {
        measure: {
            "scorer": SCORER.name,
            "params": {
                "measure": measure,
                "record": "record",
                **who,
                **paths,
                **({"controls": controls} if measure == "precision" else {}),
            },
        }
        for measure, paths in _JUDGED_PATHS.items()
    }
    agreed: JsonObject = {
        "step_id": AGREEMENT,
        "type": "deterministic_computation",
        "input_spec": {
            "computation": JUDGE_AGREEMENT.name,
            "over": "episodes",
            "in_aggregate": True,
            "params": {"criteria_scorers": dict(judged)},
        },
    }
    pairs: JsonObject = {criterion: f"lexical_{criterion}" for criterion in judged}
    second = {f"lexical_{name}": entry for name, entry in LEXICAL.criteria_scorers.items()}
    criteria_scorers = {**judged, **second}
    compared: JsonObject = {
        "step_id": SECOND_OPINION,
        "type": "deterministic_computation",
        "input_spec": {
            "computation": COMPUTATION.name,
            "over": "episodes",
            "params": {
                "pairs": pairs,
                "criteria_scorers": dict(criteria_scorers),
                "beyond": BEYOND,
            },
        },
    }
    errors: JsonObject = {
        "step_id": CONTROLS,
        "type": "deterministic_computation",
        "input_spec": {
            "computation": CONTROL_ERRORS.name,
            "over": "episodes",
            "params": {"criteria_scorers": {"precision": judged["precision"]}},
        },
    }
    return ScoringProvider(
        scorer_version=_names(judges),
        methodology=METHODOLOGY,
        criteria_human=(
            "By a language model; the criteria that begin with lexical_ are its second opinion, by "
            "words of the diff, and weigh nothing."
        ),
        measures=JUDGED_MEASURES,
        scorers=(SCORER, *LEXICAL.scorers),
        criteria_scorers=criteria_scorers,
        steps=(errors, compared),
        aggregate_steps=() if split is None else (agreed,),
    )
