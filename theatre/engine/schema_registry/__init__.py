"""JSON Schema 2020-12 as this project means it: shipped schemas, whole matches, no network.

`SchemaRegistry` validates documents; `resource_root` is the one function that finds what ships
next to the code.
"""

from theatre.engine.schema_registry.pattern_words import first_mistake, model_message
from theatre.engine.schema_registry.registry import SchemaRegistry, resource_root
from theatre.engine.schema_registry.violations import (
    Message,
    Quoted,
    SchemaViolation,
    json_pointer,
    phrase,
    quote,
    without_values,
)

__all__ = [
    "Message",
    "Quoted",
    "SchemaRegistry",
    "SchemaViolation",
    "first_mistake",
    "json_pointer",
    "model_message",
    "phrase",
    "quote",
    "resource_root",
    "without_values",
]
