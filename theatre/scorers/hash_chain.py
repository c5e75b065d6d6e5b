"""`hash_chain`: 1 where an answer cites the right record of a hash chain, and faithfully."""

from collections.abc import Mapping, Sequence
from typing import cast

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_sha256, sha256_hex
from theatre.engine.errors import CanonicalisationError
from theatre.engine.models import Scorer, ScorerKind, ScoringCase
from theatre.engine.scoring.provider import at_path
from theatre.scorers.agreement import (
    PATH,
    UNMEASURABLE,
    agree,
    members_of,
    most_frequent,
    params_schema,
)

DEFAULT_HASH = "hash"
DEFAULT_TEXT = "content"
_RECORD_ID = "record_id"
_QUOTES = "quotes"
_OWN_PARAMS: JsonObject = {
    "records": PATH,
    "covers": PATH,
    "hash": PATH,
    "max_quote": {"type": "integer", "minimum": 1},
}


def score(case: ScoringCase) -> float:
    """Return 1 where the citation holds in every point, else 0.

    The record is the one of `records` (an array in the input) whose `id` is the expected
    `record_id`; without `records` it is the answer itself. Its hash is recomputed: SHA-256 of
    the canonical JSON of the record without its `hash`, `prev_hash` included, or of the UTF-8
    text of its member `covers`. The citation holds where

    - the answer's member named by `hash` (default `hash`) is the recomputed hash;
    - the answer agrees with every member of the expectation but `quotes`;
    - if the expectation has `quotes`: the answer's `quote` is a verbatim span of the record's
      text (the member `covers`, default `content`) that contains one of them, in at most
      `max_quote` characters.

    So a record that was changed after its hash was taken earns nothing, whatever is answered.
    UNMEASURABLE where the expectation pins no member, has bad `quotes`, or names a record that
    is not shown exactly once or lacks what the hash covers or the quotes stand in.
    """
    expected = case.expected
    # What pins no member would be met by any record that is shown.
    if not isinstance(expected, dict) or not expected.keys() - {_QUOTES}:
        return UNMEASURABLE
    if _QUOTES in expected and not _are_spans(expected[_QUOTES]):
        return UNMEASURABLE
    if "records" in case.params:
        record = _shown_record(case, expected)
        if record is None:
            return UNMEASURABLE
    elif isinstance(case.answer, dict):
        record = case.answer
    else:
        return 0.0
    return 1.0 if _citation_holds(case, expected, record) else 0.0


def one_record(expectations: Sequence[JsonValue], params: JsonObject) -> JsonValue:
    """Return one record of its own making with all that is pinned, which quotes all that may be.

    None with `records`: which one is cited, and so its hash, stands in the question.
    """
    members = members_of(expectations)
    listed = [one for one in members.pop(_QUOTES, []) if _are_spans(one)]
    quotes = [cast("str", span) for one in listed for span in cast("list[JsonValue]", one)]
    record = {name: most_frequent(values) for name, values in members.items()}
    if not record or "records" in params:
        return None
    text = record.setdefault(_text_member(params), "\n".join(dict.fromkeys(quotes)))
    if isinstance(text, str):
        record.setdefault("quote", text[: cast("int | None", params.get("max_quote"))])
    return {**record, str(params.get("hash", DEFAULT_HASH)): _recompute(params, record)}


def record_hash(record: Mapping[str, JsonValue]) -> str | None:
    """Return the SHA-256 that a chained record must bear: over all of it but its `hash`.

    `prev_hash` is one of its members, so the hash covers all records before, too. None for
    what has no canonical form.
    """
    try:
        return canonical_sha256({key: value for key, value in record.items() if key != "hash"})
    except CanonicalisationError:
        return None


def _are_spans(quotes: JsonValue) -> bool:
    return (
        isinstance(quotes, list)
        and bool(quotes)
        and all(isinstance(quote, str) and quote for quote in quotes)
    )


def _shown_record(case: ScoringCase, expected: JsonObject) -> JsonObject | None:
    """Return the only record shown that the expectation names, if it can be cited."""
    shown = at_path(case.input_data, cast("str", case.params["records"]))
    if not isinstance(shown, list) or _RECORD_ID not in expected:
        return None
    named = [
        record
        for record in shown
        if isinstance(record, dict) and "id" in record and agree(record["id"], expected[_RECORD_ID])
    ]
    if len(named) != 1 or _recompute(case.params, named[0]) is None:
        return None
    quotable = isinstance(_text(case.params, named[0]), str)
    return named[0] if quotable or _QUOTES not in expected else None


def _citation_holds(case: ScoringCase, expected: JsonObject, record: JsonObject) -> bool:
    answer, stated = case.answer, cast("str", case.params.get("hash", DEFAULT_HASH))
    recomputed = _recompute(case.params, record)
    return (
        isinstance(answer, dict)
        and recomputed is not None
        and answer.get(stated) == recomputed
        and all(
            member in answer and agree(answer[member], value)
            for member, value in expected.items()
            if member != _QUOTES
        )
        and (_QUOTES not in expected or _is_quoted(case, answer.get("quote"), record))
    )


def _is_quoted(case: ScoringCase, quote: JsonValue, record: JsonObject) -> bool:
    text, longest = _text(case.params, record), case.params.get("max_quote")
    wanted = cast("list[str]", cast("JsonObject", case.expected)[_QUOTES])
    if not isinstance(quote, str) or not isinstance(text, str):
        return False
    if isinstance(longest, int) and len(quote) > longest:
        return False
    return quote in text and any(span in quote for span in wanted)


def _recompute(params: JsonObject, record: JsonObject) -> str | None:
    if "covers" not in params:
        return record_hash(record)
    text = _text(params, record)
    try:
        return sha256_hex(text.encode()) if isinstance(text, str) else None
    except UnicodeEncodeError:
        return None


def _text(params: JsonObject, record: JsonObject) -> JsonValue:
    return record.get(_text_member(params))


def _text_member(params: JsonObject) -> str:
    return cast("str", params.get("covers", DEFAULT_TEXT))


SCORER = Scorer(
    name="hash_chain",
    version="1",
    kind=ScorerKind.EXACT,
    params_schema=params_schema(_OWN_PARAMS),
    score=score,
    one_for_all=one_record,
)
