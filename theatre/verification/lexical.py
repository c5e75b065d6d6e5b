"""The `lexical` scoring: claims, coverage and replies held against the words of the diff.

A heuristic, deterministic and offline. It counts which identifiers, paths, numbers and operations
occur; it does not understand what a change means, nor whether a claim is true. docs/verification.md
says what it cannot see. So these scorers are textual, and carry no tier.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import Scorer, ScorerKind, ScoringCase
from theatre.engine.scoring.provider import at_path
from theatre.verification.change_facts import (
    WORD,
    ChangeFacts,
    change_facts,
    find_code_names,
    find_counts,
    find_numbers,
    find_operations,
    split_statements,
)
from theatre.verification.unified_diff import FileOperation

# Verdicts on single claims and single changes, common to all scorings.


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedClaim:
    """A claim by its place in `key_claims`, from 0, and whether the diff bears it out."""

    place: int
    supported: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredChanges:
    """How many important changes there are, 1 at least, and how many of them a summary names."""

    total: int
    surfaced: int


UNMEASURABLE = float("nan")
"""A result where the dataset, never the answer, is at fault: the engine counts `unscored`."""

SUMMARY_CHARACTERS = 2_000
"""How much of a summary is read for recall: a copy of the diff is no summary."""

MAX_CLAIMS = 200
_OPERATIONS = frozenset(operation.value for operation in FileOperation)


def precision(case: ScoringCase) -> float | None:
    """Return supported / distinct claims, in [0, 1]; None, undefined, where nothing is claimed.

    0 where the answer is no array. A claim beyond MAX_CLAIMS, one that is no text, and one that
    names nothing that can be looked up are not supported. UNMEASURABLE without a diff.
    """
    diff = at_path(case.input_data, cast("str", case.params["diff"]))
    if not isinstance(diff, str):
        return UNMEASURABLE
    if not isinstance(case.answer, list):
        return 0.0
    if not case.answer:
        return None
    judged = judged_claims(case.answer, change_facts(diff))
    return sum(claim.supported for claim in judged) / len(judged)


def judged_claims(claims: Sequence[JsonValue], facts: ChangeFacts) -> list[JudgedClaim]:
    """Return a verdict on each claim that counts: those that repeat another's words do not.

    Of several with the same words, but for case and white space, the last one is judged.
    """
    texts = {
        " ".join(claim.split()).casefold(): place
        for place, claim in enumerate(claims[:MAX_CLAIMS])
        if isinstance(claim, str)
    }
    unreadable = (
        place
        for place, claim in enumerate(claims)
        if place >= MAX_CLAIMS or not isinstance(claim, str)
    )
    return [
        *(
            JudgedClaim(place=place, supported=is_supported(cast("str", claims[place]), facts))
            for place in texts.values()
        ),
        *(JudgedClaim(place=place, supported=False) for place in unreadable),
    ]


def is_supported(claim: str, facts: ChangeFacts) -> bool:
    """Tell whether all that can be looked up of a claim is so, and it claims something.

    It does where it says an operation of a name, or a count of files or lines; a line of the
    diff, copied, claims nothing. Every name is a changed path, or all its words are in the
    diff. What is said to be added is in more added than removed lines, or is an added path;
    removed the other way round; changed or renamed, it is in the diff at all. A number of files or
    lines is that of all files, of added or of removed lines; another is in a changed line.
    """
    names = find_code_names(claim)
    said = dict(pair for part in split_statements(claim) for pair in find_operations(part))
    stated = find_counts(claim)
    claims_something = any(said.get(name) for name in names) or any(unit for _, unit in stated)
    return (
        claims_something
        and claim.strip() not in facts.lines
        and all(_holds(name, said.get(name), facts) for name in names)
        and all(_counts_right(number, unit, facts) for number, unit in stated)
    )


def recall(case: ScoringCase) -> float:
    """Return surfaced / expected changes, in [0, 1], of the first SUMMARY_CHARACTERS characters.

    A change is surfaced where a statement names its subject (a path, or its last part) and says
    of it the operation. 0 where the answer is no text. UNMEASURABLE without expected changes.
    """
    expected = expected_changes(case.expected)
    if not expected:
        return UNMEASURABLE
    if not isinstance(case.answer, str):
        return 0.0
    return surfaced_changes(case.answer, expected) / len(expected)


def surfaced_changes(summary: str, expected: Sequence[tuple[str, FileOperation]]) -> int:
    """Return how many of the expected changes the part of a summary that is read names."""
    said = {
        (token, operation)
        for statement in split_statements(summary[:SUMMARY_CHARACTERS])
        for token, operation in find_operations(statement)
    }
    return sum(
        any((spelling, operation) in said for spelling in _spellings(subject))
        for subject, operation in expected
    )


def reply_accuracy(case: ScoringCase) -> float:
    """Return how far a reply is the expected answer, in [0, 1].

    For a number: 1 where it is the only number in the reply, else 0. For names: F1 of the
    expected ones that the reply names, against every other name that is spelt like code. 0 where
    the answer is no text. UNMEASURABLE where nothing usable is expected.
    """
    expected: JsonValue = case.expected
    if not isinstance(expected, dict):
        return UNMEASURABLE
    reply, number, names = case.answer, expected.get("number"), expected.get("names")
    if isinstance(number, int) and not isinstance(number, bool):
        return float(isinstance(reply, str) and set(find_numbers(reply)) == {number})
    if not isinstance(names, list) or not names:
        return UNMEASURABLE
    if not isinstance(reply, str):
        return 0.0
    return _name_agreement(reply, {name for name in names if isinstance(name, str)})


def _name_agreement(reply: str, names: set[str]) -> float:
    tokens = {token for part in split_statements(reply) for token, _ in find_operations(part)}
    spelt = set(find_code_names(reply))
    by_spelling = {spelling: name for name in names for spelling in _spellings(name)}
    hits = {by_spelling[spelling] for spelling in tokens | spelt if spelling in by_spelling}
    strangers = {name for name in spelt if name not in by_spelling}
    return 2 * len(hits) / (len(hits) + len(strangers) + len(names))


def _spellings(subject: str) -> set[str]:
    """Return what names a path: itself, and its last part unless that begins with a dot.

    Half the folders of a repository can have a `.gitignore`: the name says of none which it is.
    """
    last = subject.rpartition("/")[2]
    return {subject} if last.startswith(".") else {subject, last} - {""}


def _holds(name: str, said: FileOperation | None, facts: ChangeFacts) -> bool:
    paths = [
        file
        for file in facts.files
        if name in _spellings(file.path) or name in _spellings(file.old_path)
    ]
    if paths:
        return said in {None, FileOperation.MODIFIED} or any(f.operation is said for f in paths)
    words = WORD.findall(name)
    if not words:
        return False
    added, removed = facts.added_words, facts.removed_words
    if said is FileOperation.ADDED:
        return all(added[word] > 0 for word in words) and added[words[-1]] > removed[words[-1]]
    if said is FileOperation.DELETED:
        return all(removed[word] > 0 for word in words) and removed[words[-1]] > added[words[-1]]
    return all(added[word] + removed[word] > 0 or word in facts.context_words for word in words)


def _counts_right(number: int, unit: str, facts: ChangeFacts) -> bool:
    if unit == "file":
        return number == len(facts.files)
    if unit == "line":
        return number in {facts.lines_added, facts.lines_removed}
    return facts.added_words[str(number)] + facts.removed_words[str(number)] > 0


def expected_changes(value: JsonValue) -> list[tuple[str, FileOperation]]:
    """Return subject and operation of the changes that a dataset expects; unusable ones go."""
    found = []
    for change in value if isinstance(value, list) else ():
        subject = change.get("subject") if isinstance(change, dict) else None
        operation = change.get("operation") if isinstance(change, dict) else None
        if isinstance(subject, str) and isinstance(operation, str) and operation in _OPERATIONS:
            found.append((subject, FileOperation(operation)))
    return found


_PATH: JsonObject = {"type": "string", "minLength": 1}


def _params(further: str) -> JsonObject:
    names: JsonObject = {"field": _PATH, further: _PATH}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": False,
        "required": list(names),
        "properties": names,
    }


PRECISION = Scorer(
    name="lexical_precision",
    version="2",
    kind=ScorerKind.TEXTUAL,
    params_schema=_params("diff"),
    score=precision,
    needs_expectation=False,
)
RECALL = Scorer(
    name="lexical_recall",
    version="2",
    kind=ScorerKind.TEXTUAL,
    params_schema=_params("expected"),
    score=recall,
)
REPLY_ACCURACY = Scorer(
    name="lexical_reply_accuracy",
    version="2",
    kind=ScorerKind.TEXTUAL,
    params_schema=_params("expected"),
    score=reply_accuracy,
)
