"""JSON Schema 2020-12 as this project means it: shipped schemas, whole matches, no network.

`SchemaRegistry` validates documents; `resource_root` is the one function that finds what ships
beside the code.
"""

from theatre.engine.schema_registry.pattern_words import (
    first_mistake,
    model_message,
    pattern_words,
)
from theatre.engine.schema_registry.registry import SchemaRegistry
from theatre.engine.schema_registry.resources import resource_root
from theatre.engine.schema_registry.violations import (
    SchemaViolation,
    Seen,
    Wording,
    json_pointer,
    shown,
    without_values,
    worded,
)

__all__ = [
    "SchemaRegistry",
    "SchemaViolation",
    "Seen",
    "Wording",
    "first_mistake",
    "json_pointer",
    "model_message",
    "pattern_words",
    "resource_root",
    "shown",
    "without_values",
    "worded",
]
