"""Rules on what identifies the answers in an export: forks and `rlmf_export_config`.

Source: docs/contract/template.md §6.
"""

from __future__ import annotations

from collections.abc import Iterator

from theatre.engine.canonical_json import JsonObject
from theatre.engine.schema_registry import Quoted, json_pointer, phrase
from theatre.engine.template_validator.fork_options import (
    EXPORT_CONFIG,
    export_mapping,
    judged_fork,
    residual_option,
)
from theatre.engine.template_validator.subject import (
    Finding,
    Rule,
    Subject,
    as_text,
    numbered_objects,
)
from theatre.engine.templates import CURRENT

_FORKS = "fork_definitions"
_MEMBERS = ("fork_id", "output_path", "truth_path")


def _export_config_complete(subject: Subject) -> Iterator[Finding]:
    mapping = _mapping(subject)
    for member in _MEMBERS if mapping else ():
        if not as_text(mapping.get(member)):
            where = (EXPORT_CONFIG, member) if member in mapping else (EXPORT_CONFIG,)
            seen = Quoted(mapping[member]) if member in mapping else "none"
            yield json_pointer(*where), phrase(f"expected {member} beside the others, got ", seen)


def _export_fork_known(subject: Subject) -> Iterator[Finding]:
    fork_id = as_text(_mapping(subject).get("fork_id"))
    if fork_id is not None and _fork(subject, fork_id) is None:
        yield (
            json_pointer(EXPORT_CONFIG, "fork_id"),
            phrase("expected the fork_id of a fork of this template, got ", Quoted(fork_id)),
        )


def _export_fork_residual(subject: Subject) -> Iterator[Finding]:
    # An answer may be anything: an option must be left for it.
    fork_id = as_text(_mapping(subject).get("fork_id"))
    fork = None if fork_id is None else _fork(subject, fork_id)
    if fork is not None and residual_option(fork) is None:
        yield (
            json_pointer(EXPORT_CONFIG, "fork_id"),
            "expected a fork with a residual option (other, none, no_change, …), got one without",
        )


def _export_told_by_fork(subject: Subject) -> Iterator[Finding]:
    forks = [fork for _, fork in numbered_objects(subject.at(_FORKS))]
    if not subject.replays or not forks or _mapping(subject) or judged_fork(subject.document):
        return
    if residual_option(forks[0]) is None:
        yield (
            json_pointer(_FORKS),
            (
                "expected rlmf_export_config, a fork with the options meets and falls_short, or a "
                "residual option in the first fork; got none: a run cannot be exported"
            ),
        )


def _mapping(subject: Subject) -> JsonObject:
    return export_mapping(subject.document) if subject.replays else {}


def _fork(subject: Subject, fork_id: str) -> JsonObject | None:
    forks = numbered_objects(subject.at(_FORKS))
    return next((fork for _, fork in forks if fork.get("fork_id") == fork_id), None)


RULES = (
    Rule("export-config-complete", _export_config_complete, since=CURRENT),
    Rule("export-fork-known", _export_fork_known, since=CURRENT),
    Rule("export-fork-residual", _export_fork_residual, since=CURRENT),
    Rule("export-told-by-fork", _export_told_by_fork, severity="warning"),
)
