"""`TemplateValidator`: the schema of the document's version, then every rule that it knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import Scorer
from theatre.engine.schema_registry import Message, Quoted, SchemaRegistry, json_pointer, phrase
from theatre.engine.template_validator import (
    hitl_rules,
    market_rules,
    programme_rules,
    replay_rules,
    scorer_rules,
    text_rules,
)
from theatre.engine.template_validator.market_rules import (
    EXPORT_CONFIG,
    export_mapping,
    judged_fork,
    residual_option,
)
from theatre.engine.template_validator.subject import (
    Finding,
    Rule,
    Subject,
    ValidationReport,
    Violation,
    as_object,
    as_text,
    numbered_objects,
)
from theatre.engine.template_validator.text_rules import without_credentials
from theatre.engine.templates import CURRENT, EXISTING, NEWEST, SIMULATION

# Rules on what identifies the answers in an export: forks and `rlmf_export_config`.
#
# Source: docs/contract/template.md §6.


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


EXPORT_RULES = (
    Rule("export-config-complete", _export_config_complete, since=CURRENT),
    Rule("export-fork-known", _export_fork_known, since=CURRENT),
    Rule("export-fork-residual", _export_fork_residual, since=CURRENT),
    Rule("export-told-by-fork", _export_told_by_fork, severity="warning"),
)


TEMPLATE_SCHEMAS: Mapping[str, str] = {
    SIMULATION: "echelon_theatre_schema_v1.json",
    EXISTING: "echelon_theatre_schema_v2.json",
    CURRENT: "echelon_theatre_schema_v2_1.json",
    NEWEST: "echelon_theatre_schema_v2_2.json",
}
"""Schema version → the frozen schema of its templates."""

RULES: tuple[Rule, ...] = (
    *scorer_rules.CRITERIA_RULES,
    *scorer_rules.RULES,
    *programme_rules.RULES,
    *programme_rules.STEP_INPUT_RULES,
    *hitl_rules.RULES,
    *replay_rules.RULES,
    *replay_rules.ENDPOINT_RULES,
    *market_rules.RULES,
    *EXPORT_RULES,
    *text_rules.RULES,
    *replay_rules.CERTIFICATE_RULES,
)
"""Every runtime rule, the rules of a certificate run last; each says since which version."""

_UNREADABLE = frozenset({"schema:depth", "schema:json"})
_CREDENTIALS = "no-credentials"


class TemplateValidator:
    """Validates documents against the template schema and all rules; reads no data file."""

    def __init__(self, scorers: Mapping[str, Scorer]) -> None:
        """Take the installed scorers by name: rule 17 asks whether they are there."""
        self._scorers = scorers
        self._registry = SchemaRegistry()

    def validate(
        self, document: JsonObject, *, certificate_run: bool = True, from_api: bool = False
    ) -> ValidationReport:
        """Return every violation and warning of `document`; never raises for what it holds.

        `certificate_run` refuses a mock adapter (else it is a warning); `from_api` refuses what
        only the machine's own user may write: absolute paths, argument lists, `python` adapters,
        scorers that ask a judge.
        A document of an unknown version has that one error: the rest would be guesses.
        """
        subject = Subject(
            document=as_object(document),
            scorers=self._scorers,
            registry=self._registry,
            certificate_run=certificate_run,
            from_api=from_api,
        )
        unknown = _unknown_version(subject.document)
        if unknown is not None:
            return ValidationReport(errors=(unknown,), warnings=())
        found = self._registry.validate(TEMPLATE_SCHEMAS[subject.version], document)
        if any(violation.rule in _UNREADABLE for violation in found):
            return ValidationReport(errors=tuple(found), warnings=())
        errors = found + _find_broken(subject, "error")
        report = _discreet if any(error.rule == _CREDENTIALS for error in errors) else _sort
        return ValidationReport(
            errors=report(errors), warnings=report(_find_broken(subject, "warning"))
        )


def _unknown_version(document: JsonObject) -> Violation | None:
    stated = document.get("schema_version")
    if not isinstance(stated, str) or stated in TEMPLATE_SCHEMAS:
        return None
    detail = phrase(f"expected one of {', '.join(TEMPLATE_SCHEMAS)}; got ", Quoted(stated))
    return Violation("/schema_version", "schema:enum", detail.changed(without_credentials))


def _find_broken(subject: Subject, severity: str) -> list[Violation]:
    return [
        Violation(pointer, rule.name, detail)
        for rule in RULES
        if rule.severity == severity and rule.holds_for(subject)
        for pointer, detail in rule.check(subject)
    ]


def _sort(violations: list[Violation]) -> tuple[Violation, ...]:
    return tuple(sorted(set(violations)))


def _discreet(violations: list[Violation]) -> tuple[Violation, ...]:
    """Sort, and keep any part of a credential out of pointers and messages."""
    return _sort(
        [
            Violation(
                without_credentials(violation.pointer),
                violation.rule,
                violation.detail.changed(without_credentials)
                if isinstance(violation.detail, Message)
                else without_credentials(violation.detail),
            )
            for violation in violations
        ]
    )
