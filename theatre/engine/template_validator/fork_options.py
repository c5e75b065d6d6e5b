"""What the options of a fork mean, and which fork an answer decides.

Total: a fork of any shape has an answer, so that no rule trips over one.
"""

from __future__ import annotations

from theatre.engine.canonical_json import JsonObject
from theatre.engine.template_validator.subject import as_object, as_text, numbered_objects
from theatre.engine.templates import CURRENT, NEWEST

EXPORT_CONFIG = "rlmf_export_config"
MEETS, FALLS_SHORT = "meets", "falls_short"
_MAPPING = ("fork_id", "output_path", "truth_path")

RESIDUAL_OPTIONS = frozenset(
    {
        "other",
        "any_other",
        "another",
        "otherwise",
        "none",
        "none_of_the_above",
        "none_of_these",
        "neither",
        "no_change",
        "unchanged",
        "no_event",
        "nothing",
        "status_quo",
        "residual",
    }
)
"""Ids or labels of an option that takes what the others leave over."""


def residual_option(fork: JsonObject) -> str | None:
    """Return the id of the first option that takes what the others leave over."""
    for _, option in numbered_objects(fork.get("options")):
        option_id = as_text(option.get("option_id"))
        if option_id is not None and _is_residual(option_id, as_text(option.get("label"))):
            return option_id
    return None


def option_ids(fork: JsonObject) -> list[str]:
    """Return the ids of a fork's options, in order."""
    options = numbered_objects(fork.get("options"))
    found = (as_text(option.get("option_id")) for _, option in options)
    return [option_id for option_id in found if option_id is not None]


def judged_fork(document: JsonObject) -> JsonObject | None:
    """Return the first fork that asks whether an answer meets the expectation."""
    for _, fork in numbered_objects(document.get("fork_definitions")):
        if {MEETS, FALLS_SHORT} <= set(option_ids(fork)):
            return fork
    return None


def export_mapping(document: JsonObject) -> JsonObject:
    """Return what `rlmf_export_config` says of fork and paths; empty before 2.1.0."""
    if document.get("schema_version") not in (CURRENT, NEWEST):
        return {}
    config = as_object(document.get(EXPORT_CONFIG))
    return {member: config[member] for member in _MAPPING if member in config}


def fold_case(text: str) -> str:
    """Return `text` as a reader takes it: without case and superfluous space."""
    return " ".join(text.casefold().split())


def _is_residual(*names: str | None) -> bool:
    return any(
        fold_case(name.replace("-", " ").replace("_", " ")).replace(" ", "_") in RESIDUAL_OPTIONS
        for name in names
        if name is not None
    )
