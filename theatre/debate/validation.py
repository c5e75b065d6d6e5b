"""From bytes to a debate artefact: strict JSON, the schema, the rules; every fault by pointer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from theatre.debate.errors import InvalidDebateError
from theatre.debate.models import Debate, Finding
from theatre.debate.rules import rule_findings
from theatre.engine.canonical_json import MAX_INPUT_DEPTH, JsonObject, parse_object, sha256_hex
from theatre.engine.errors import ParseError
from theatre.engine.schema_registry import SchemaRegistry, json_pointer, model_message

SCHEMA = "debate_output_schema_v2.json"

_CODES: Mapping[tuple[str, str], tuple[str, str]] = {
    ("schema_version", "schema:const"): ("R1", "E_SCHEMA_VERSION"),
    ("turn_id", "schema:minLength"): ("R4", "E_TURN_ID_EMPTY"),
    ("speaker_id", "schema:minLength"): ("R3", "E_SPEAKER_ID_EMPTY"),
    ("turn_index", "schema:minimum"): ("R5", "E_NEGATIVE_TURN_INDEX"),
    ("attempt_index", "schema:minimum"): ("R8", "E_ATTEMPT_INDEX_INVALID"),
}
"""Breaches of the schema that have their own name, by member and keyword."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DebateArtefact:
    """A valid artefact: the bytes as they came, what they say, and typed views of it."""

    data: bytes
    document: JsonObject
    debate: Debate
    warnings: tuple[Finding, ...]

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of the submitted bytes: the name of this artefact."""
        return sha256_hex(self.data)


def read_debate(
    data: bytes, *, lenient: bool = False, registry: SchemaRegistry | None = None
) -> DebateArtefact:
    """Return the artefact in `data`.

    Raises InvalidDebateError with every error. `lenient` turns the errors of order (R6) and of
    retry counts (R11) into warnings. A `registry` saves compiling the schema again.
    """
    document = _parse(data)
    try:
        # Quick, and as strict as the schema, which then says where and why.
        debate = Debate.model_validate(document)
    except ValidationError as error:
        found = _schema_findings(registry or SchemaRegistry(), document)
        raise InvalidDebateError(found or _model_findings(error)) from error
    findings = rule_findings(debate, lenient=lenient)
    errors = sorted(one for one in findings if one.severity == "error")
    if errors:
        raise InvalidDebateError(errors)
    return DebateArtefact(
        data=data, document=document, debate=debate, warnings=tuple(sorted(findings))
    )


def repeated_runs(debates: Sequence[Debate]) -> list[tuple[int, Finding]]:
    """R17: return, by place, each debate whose (debate_id, run_id) another had before it."""
    seen: set[tuple[str, str]] = set()
    found = []
    for place, debate in enumerate(debates):
        ids = debate.debate_id, debate.run_id
        if ids in seen:
            detail = f"expected each (debate_id, run_id) once, got {ids!r} again"
            found.append((place, _error("/run_id", "R17", "E_DUPLICATE_RUN", detail)))
        seen.add(ids)
    return found


def _parse(data: bytes) -> JsonObject:
    try:
        return parse_object(data, max_depth=MAX_INPUT_DEPTH)
    except ParseError as error:
        finding = _error("", "R18", "E_NOT_STRICT_JSON", f"{error} ({error.reason})")
        raise InvalidDebateError([finding]) from error


def _schema_findings(registry: SchemaRegistry, document: JsonObject) -> list[Finding]:
    return [
        _error(
            breach.pointer,
            *_CODES.get(
                (breach.pointer.rpartition("/")[2], breach.rule), (breach.rule, "E_SCHEMA")
            ),
            breach.detail,
        )
        for breach in registry.validate(SCHEMA, document)
    ]


def _model_findings(error: ValidationError) -> list[Finding]:
    """Where the schema has no word for it, the models' own: a refusal always says where."""
    return [
        _error(json_pointer(*one["loc"]), "schema:model", "E_SCHEMA", model_message(one))
        for one in error.errors(include_url=False, include_context=False, include_input=False)
    ]


def _error(pointer: str, rule: str, code: str, detail: str) -> Finding:
    return Finding(pointer=pointer, rule=rule, code=code, severity="error", detail=detail)
