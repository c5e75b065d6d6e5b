"""`json_schema`: 1 where the answer is valid against a committed JSON Schema, else 0."""

from typing import Final, cast

from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import Scorer, ScorerKind, ScoringCase
from theatre.engine.schema_registry import SchemaRegistry, SchemaViolation
from theatre.engine.schema_registry.violations import UNUSABLE
from theatre.scorers.agreement import UNMEASURABLE, params_schema

_OWN_PARAMS: JsonObject = {"schema": {"type": "object"}}
_REGISTRY: Final = SchemaRegistry()


def score(case: ScoringCase) -> float:
    """Return 1 where the answer breaks no rule of `schema` (draft 2020-12), else 0.

    References are local (`#…`), formats are checked, patterns match as in ECMA-262. An answer
    that leads the schema round in circles scores 0. UNMEASURABLE where the schema cannot be
    used with any answer.
    """
    schema = cast("JsonObject", case.params["schema"])
    faults = _REGISTRY.validate_inline(schema, case.answer)
    # null leads nowhere: a schema that cannot judge it either is itself at fault.
    if _is_unusable(faults) and _is_unusable(_REGISTRY.validate_inline(schema, None)):
        return UNMEASURABLE
    return 0.0 if faults else 1.0


def _is_unusable(faults: list[SchemaViolation]) -> bool:
    return any(fault.rule == UNUSABLE for fault in faults)


SCORER = Scorer(
    name="json_schema",
    version="1",
    kind=ScorerKind.EXACT,
    params_schema=params_schema(_OWN_PARAMS, required=("schema",), takes_expected=False),
    score=score,
    needs_expectation=False,
)
