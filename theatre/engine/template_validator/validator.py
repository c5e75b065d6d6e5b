"""`TemplateValidator`: the schema of the document's version, then every rule that it knows."""

from collections.abc import Collection, Mapping
from typing import cast

from pydantic import ValidationError

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import Scorer
from theatre.engine.schema_registry import (
    Message,
    Quoted,
    SchemaRegistry,
    json_pointer,
    model_message,
    phrase,
)
from theatre.engine.template_validator import (
    market_rules,
    programme_rules,
    replay_rules,
    scorer_rules,
    text_rules,
)
from theatre.engine.template_validator.subject import (
    Path,
    Rule,
    Subject,
    ValidationReport,
    Violation,
)
from theatre.engine.template_validator.text_rules import without_credentials
from theatre.engine.templates import (
    CURRENT,
    EXISTING,
    NEWEST,
    SIMULATION,
    TemplateView,
    TheatreTemplate,
    as_run,
    read_faulty_template,
    read_template,
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
    *scorer_rules.RATING_RULES,
    *replay_rules.RULES,
    *replay_rules.ENDPOINT_RULES,
    *market_rules.RULES,
    *market_rules.EXPORT_RULES,
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
        self,
        document: JsonObject,
        *,
        certificate_run: bool = True,
        from_api: bool = False,
        python_modules: Collection[str] = (),
        judges: Collection[str] = (),
    ) -> ValidationReport:
        """Return every violation and warning of `document`; never raises for what it holds.

        `certificate_run` refuses a mock adapter (else it is a warning); `from_api` refuses what
        only the machine's own user may write: absolute paths, argument lists, scorers that ask a
        judge but of the providers `judges`, and `python` adapters but of `python_modules`: both
        are the operator's.
        A document of an unknown version has that one error: the rest would be guesses.
        """
        # Total: what comes in may be any JSON, whatever the type says.
        written = document if isinstance(cast("JsonValue", document), dict) else {}
        stated = written.get("schema_version")
        version = stated if isinstance(stated, str) else NEWEST
        if version not in TEMPLATE_SCHEMAS:
            return ValidationReport(errors=(_unknown_version(version),), warnings=())
        found = self._registry.validate(TEMPLATE_SCHEMAS[version], document)
        if any(violation.rule in _UNREADABLE for violation in found):
            return ValidationReport(errors=tuple(found), warnings=())
        view, unread = (None, []) if found else _read(written)
        subject = Subject(
            document=written,
            # 1.0.0 is open: what later versions know may be written in it in any form.
            template=view if isinstance(view, TheatreTemplate) else read_faulty_template(written),
            values=_values(written),
            version=version,
            scorers=self._scorers,
            registry=self._registry,
            certificate_run=certificate_run,
            from_api=from_api,
            python_modules=python_modules,
            judges=judges,
        )
        errors = found + _find_broken(subject, "error") + unread
        report = _discreet if any(error.rule == _CREDENTIALS for error in errors) else _sort
        return ValidationReport(
            errors=report(errors),
            warnings=report(_find_broken(subject, "warning")),
            view=None if errors or view is None else as_run(view),
        )


def _unknown_version(stated: str) -> Violation:
    detail = phrase(f"expected one of {', '.join(TEMPLATE_SCHEMAS)}; got ", Quoted(stated))
    return Violation("/schema_version", "schema:enum", detail.changed(without_credentials))


def _read(document: JsonObject) -> tuple[TemplateView | None, list[Violation]]:
    """Return the value of a document that fits its schema, or what its schema has no word for."""
    try:
        return read_template(document), []
    except ValidationError as error:  # a whole number that is no count
        return None, [
            Violation(
                json_pointer(*map(str, one["loc"])),
                "schema:type",
                f"expected another value: {model_message(one)}",
            )
            for one in error.errors()
        ]


def _values(document: JsonObject) -> list[tuple[Path, JsonValue]]:
    """Return every value of the document with its path, without recursion."""
    values: list[tuple[Path, JsonValue]] = [((), document)]
    # The list grows as it is gone through.
    for path, value in values:
        if isinstance(value, dict):
            values += [((*path, name), item) for name, item in value.items()]
        elif isinstance(value, list):
            values += [((*path, at), item) for at, item in enumerate(value)]
    return values


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
