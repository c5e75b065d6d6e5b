"""`TemplateValidator`: the schema of the document's version, then every rule of the table."""

from __future__ import annotations

from collections.abc import Mapping

from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import Scorer
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.template_validator import (
    criteria_rules,
    endpoint_rules,
    hitl_rules,
    market_rules,
    programme_rules,
    replay_rules,
    scorer_rules,
    text_rules,
)
from theatre.engine.template_validator.credentials import without_credentials
from theatre.engine.template_validator.report import ValidationReport, Violation
from theatre.engine.template_validator.subject import Rule, Subject, as_object

TEMPLATE_SCHEMA = "echelon_theatre_schema_v2_1.json"

RULES: tuple[Rule, ...] = (
    *criteria_rules.RULES,
    *scorer_rules.RULES,
    *programme_rules.RULES,
    *hitl_rules.RULES,
    *replay_rules.RULES,
    *endpoint_rules.RULES,
    *market_rules.RULES,
    *text_rules.RULES,
    *replay_rules.CERTIFICATE_RULES,
)
"""Every runtime rule, the rules of a certificate run last."""

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
        only the machine's own user may write: absolute paths, argument lists, `python` adapters.
        """
        found = self._registry.validate(TEMPLATE_SCHEMA, document)
        if any(violation.rule in _UNREADABLE for violation in found):
            return ValidationReport(errors=tuple(found), warnings=())
        subject = Subject(
            document=as_object(document),
            scorers=self._scorers,
            registry=self._registry,
            certificate_run=certificate_run,
            from_api=from_api,
        )
        errors = found + _broken(subject, "error")
        report = _discreet if any(error.rule == _CREDENTIALS for error in errors) else _sorted
        return ValidationReport(errors=report(errors), warnings=report(_broken(subject, "warning")))


def _broken(subject: Subject, severity: str) -> list[Violation]:
    return [
        Violation(pointer, rule.name, detail)
        for rule in RULES
        if rule.severity == severity
        for pointer, detail in rule.check(subject)
    ]


def _sorted(violations: list[Violation]) -> tuple[Violation, ...]:
    return tuple(sorted(set(violations)))


def _discreet(violations: list[Violation]) -> tuple[Violation, ...]:
    """Sort, and keep any part of a credential out of pointers and messages."""
    return _sorted(
        [
            Violation(
                without_credentials(violation.pointer),
                violation.rule,
                without_credentials(violation.detail),
            )
            for violation in violations
        ]
    )
