"""Claims about changes whose truth is known, and a measure asked about each of them.

A measure is given a claim as a run gives it one, in the same places, so that the parameters of a
criterion hold here as they are. It sees the change and the claim; labels are not within its reach.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, cast

from theatre.engine.canonical_json import (
    JsonObject,
    JsonValue,
    canonical_sha256,
    parse_object,
    sha256_hex,
)
from theatre.engine.errors import DatasetError, ParseError, QualificationError, UnaskedError
from theatre.engine.models import ANSWER, Judge, Scorer, ScoringCase, ask_judge
from theatre.engine.schema_registry import SchemaRegistry, resource_root
from theatre.engine.scoring import nano_to_number, to_nano
from theatre.engine.scoring.provider import Absent, at_path
from theatre.engine.scoring.qualification import KINDS, VERDICTS, LabelledRow, labelled_set

_CHANGE = {"change_id", "commit", "subject", "diff"}
_CLAIM = {"claim_id", "change_id", "claim", "verdict", "kind"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledClaims:
    """A labelled set: changes by id, texts of claims by id, and rows that no measure scored yet."""

    changes: Mapping[str, JsonObject]
    claims: Mapping[str, str]
    rows: Sequence[LabelledRow]

    @property
    def texts_sha256(self) -> str:
        """Return the hash of what a measure reads: subjects, diffs and claims."""
        return canonical_sha256(
            {
                "changes": {
                    name: {"subject": change["subject"], "diff": change["diff"]}
                    for name, change in self.changes.items()
                },
                "claims": dict(self.claims),
            }
        )

    def case(self, row: LabelledRow, scorer: Scorer, params: JsonObject) -> ScoringCase | None:
        """Return what `scorer` sees of a claim; None where `params` point at nothing there."""
        change, claim = self.changes[row.change_id], self.claims[row.claim_id]
        output: JsonObject = {"key_claims": [claim], "summary": claim}
        expected: JsonValue | Absent = {"diff": change["diff"]}
        path = params.get("expected")
        if isinstance(path, str):
            expected = at_path(cast("JsonValue", expected), path)
        field = params.get("field")
        answer = at_path(output, field) if isinstance(field, str) else output
        if isinstance(answer, Absent) or (
            isinstance(expected, Absent) and scorer.needs_expectation
        ):
            return None
        return ScoringCase(
            input_data={
                "record": {
                    "title": change["subject"] or "",
                    "description": "",
                    "diff_content": change["diff"],
                }
            },
            expected=None if isinstance(expected, Absent) else expected,
            answer=answer,
            params=params,
            hops={"oracle": output},
            # No coin: who labels has nothing to gain by the place of an option.
            judge_seed=sha256_hex(row.claim_id.encode()),
        )


def read_labelled(files: Iterable[bytes]) -> LabelledClaims:
    """Return the set in JSONL files of changes and of claims, in any order.

    Raises DatasetError for a line that is neither, an id that comes twice, and a claim about a
    change that is not there.
    """
    changes: dict[str, JsonObject] = {}
    claims: dict[str, str] = {}
    rows: list[LabelledRow] = []
    for number, line in enumerate((line for data in files for line in data.splitlines()), 1):
        try:
            document = parse_object(line)
        except ParseError as error:
            raise DatasetError(f"expected JSON in labelled line {number}: {error}") from error
        if document.keys() == _CHANGE and _are_texts(document, "change_id", "diff"):
            if document["change_id"] in changes:
                raise DatasetError(f"expected each change once, got {document['change_id']} twice")
            changes[cast("str", document["change_id"])] = document
        elif document.keys() == _CLAIM and _are_texts(document, *_CLAIM):
            row = _row(document)
            if row.claim_id in claims:
                raise DatasetError(f"expected each claim once, got {row.claim_id} twice")
            claims[row.claim_id] = cast("str", document["claim"])
            rows.append(row)
        else:
            raise DatasetError(
                f"expected a change or a claim in labelled line {number}, got "
                f"{', '.join(document)[:100]}"
            )
    for row in rows:
        if row.change_id not in changes:
            raise DatasetError(f"expected the change {row.change_id} of {row.claim_id}, got none")
    rows.sort(key=lambda row: row.claim_id)
    return LabelledClaims(changes=changes, claims=claims, rows=rows)


SHIPPED_SHA256: Final = "9e7d7519776f8f67003dfd8c63c0c9b9c0d282ef57563b70957bd51b25eee569"
"""The hash of the shipped set, as a qualification names it; templates commit to it."""


@cache
def shipped_set() -> LabelledClaims:
    """Return the set that ships with the package; DatasetError where it is another one."""
    folder = resource_root() / "fixtures" / "labelled" / "changes"
    files = [*folder.glob("changes_*.jsonl"), *folder.glob("claims_*.jsonl")]
    found = read_labelled(path.read_bytes() for path in sorted(files))
    seen = labelled_set(found.rows, found.texts_sha256)["sha256"]
    if seen != SHIPPED_SHA256:
        raise DatasetError(f"expected the labelled claims {SHIPPED_SHA256}, got {seen}")
    return found


def _are_texts(document: JsonObject, *names: str) -> bool:
    return all(isinstance(document[name], str) for name in names)


def _row(document: JsonObject) -> LabelledRow:
    verdict, kind = cast("str", document["verdict"]), cast("str", document["kind"])
    if verdict not in VERDICTS or kind not in KINDS:
        raise DatasetError(f"expected a verdict and a kind that are known, got {verdict}, {kind}")
    return LabelledRow(
        claim_id=cast("str", document["claim_id"]),
        change_id=cast("str", document["change_id"]),
        verdict=verdict,
        kind=kind,
        score=None,
    )


def _number(given: object) -> float | None:
    """Return a score in [0, 1]; None for what is no usable answer."""
    nano = to_nano(given)
    return None if nano is None else nano_to_number(nano)


def score_claims(
    labelled: LabelledClaims,
    scorer: Scorer,
    params: JsonObject,
    exchanges: Mapping[str, Sequence[JsonObject]] | None = None,
) -> list[LabelledRow]:
    """Return the rows with what a pure scorer gives, or one that asks by recorded exchanges.

    Exchanges that are not those it asks for are no usable answer. Raises QualificationError for
    parameters that are not the scorer's: a stranger's file may have any.
    """
    for misfit in SchemaRegistry().validate_inline(scorer.params_schema, params):
        raise QualificationError(f"params{misfit.pointer} of {scorer.name}: {misfit.detail}")
    found = []
    for row in labelled.rows:
        case = labelled.case(row, scorer, params)
        if case is not None and exchanges is not None:
            case = replace(case, exchanges=exchanges.get(row.claim_id, ()))
        try:
            given = None if case is None else scorer.score(case)
        except UnaskedError:
            given = None
        found.append(replace(row, score=_number(given)))
    return found


async def ask_about_claims(
    labelled: LabelledClaims, scorer: Scorer, params: JsonObject, judge: Judge
) -> dict[str, list[JsonObject]]:
    """Return claim → exchanges with a judge, one claim after the other; raises what he raises."""
    asked: dict[str, list[JsonObject]] = {}
    for row in labelled.rows:
        case = labelled.case(row, scorer, params)
        if case is not None and scorer.judgement is not None:
            _, asked[row.claim_id] = await ask_judge(scorer.judgement(case), judge)
    return asked


_TOKENS: Final = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
"""What a message calls its tokens, and what a chat completion does."""


def usage_of_exchanges(exchanges: Mapping[str, Sequence[JsonObject]]) -> JsonObject:
    """Return what a judge took: requests, tokens as he counts them, and milliseconds."""
    given = (exchange.get(ANSWER) for one in exchanges.values() for exchange in one)
    answers = [one for one in given if isinstance(one, dict)]
    tokens = dict.fromkeys(_TOKENS, 0)
    for answer in answers:
        body = answer.get("body")
        try:
            usage = parse_object(body.encode()).get("usage") if isinstance(body, str) else None
        except (ParseError, UnicodeEncodeError):
            usage = None
        for name, chat_name in _TOKENS.items():
            stated = usage if isinstance(usage, dict) else {}
            count = stated.get(name, stated.get(chat_name))
            tokens[name] += count if isinstance(count, int) and not isinstance(count, bool) else 0
    waited = [answer.get("latency_ms") for answer in answers]
    return {
        "requests": len(answers),
        **tokens,
        "latency_ms": sum(one for one in waited if isinstance(one, int)),
    }
