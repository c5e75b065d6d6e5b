"""Rules on families, paths and markets (docs/contract/template.md §3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from theatre.engine.canonical_json import JsonObject
from theatre.engine.schema_registry import Quoted, json_pointer, phrase
from theatre.engine.template_validator.subject import (
    Finding,
    Numbered,
    Rule,
    Subject,
    as_number,
    as_object,
    as_text,
    numbered_objects,
)
from theatre.engine.templates import CURRENT, NEWEST

# What the options of a fork mean, and which fork an answer decides.
#
# Total: a fork of any shape has an answer, so that no rule trips over one.


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


_MARKET = "market_theatre_config"
_FORKS = "fork_definitions"
_DEFAULT_CORROBORATION = 2

_PATH_OF_FAMILY: Mapping[str, str] = {"PRODUCT": "replay", "GEOPOLITICAL": "market"}
_FOREIGN_CONFIG: Mapping[str, str] = {"replay": _MARKET, "market": "product_theatre_config"}


def _family_matches_path(subject: Subject) -> Iterator[Finding]:
    family, path = as_text(subject.at("template_family")), as_text(subject.at("execution_path"))
    expected = _PATH_OF_FAMILY.get(family or "")
    if expected is not None and path in _FOREIGN_CONFIG and path != expected:
        yield "/execution_path", f"expected {expected} for the family {family}, got {path}"


def _other_path_config_absent(subject: Subject) -> Iterator[Finding]:
    foreign = _FOREIGN_CONFIG.get(as_text(subject.at("execution_path")) or "")
    if foreign is not None and foreign in subject.document:
        path = subject.at("execution_path")
        yield json_pointer(foreign), f"expected no such member where the path is {path}, got one"


def _sources_independent(subject: Subject) -> Iterator[Finding]:
    config = subject.at(_MARKET)
    if not subject.trades or not isinstance(config, dict):
        return
    minimum = as_number(config.get("corroboration_minimum", _DEFAULT_CORROBORATION))
    independent = {
        (fold_case(provider), fold_case(modality))
        for _, source in _sources(subject)
        if (provider := as_text(source.get("provider"))) is not None
        and (modality := as_text(source.get("modality"))) is not None
    }
    if minimum is not None and len(independent) < minimum:
        where = (_MARKET, "osint_sources") if "osint_sources" in config else (_MARKET,)
        yield (
            json_pointer(*where),
            (
                phrase(
                    "expected at least ",
                    Quoted(minimum),
                    f" sources that differ in provider or modality, got {len(independent)}",
                )
            ),
        )


def _sources_primary(subject: Subject) -> Iterator[Finding]:
    roles = [source.get("resolution_role") for _, source in _sources(subject)]
    if roles and "primary_evidence" not in roles:
        yield (
            json_pointer(_MARKET, "osint_sources"),
            "expected at least one source with resolution_role primary_evidence, got none",
        )


def _forks_exhaustive(subject: Subject) -> Iterator[Finding]:
    yield from _undeclared(subject, "exhaustive")


def _forks_exclusive(subject: Subject) -> Iterator[Finding]:
    yield from _undeclared(subject, "mutually_exclusive")


def _option_labels_distinct(subject: Subject) -> Iterator[Finding]:
    for index, fork in _forks(subject):
        seen: set[str] = set()
        for position, option in numbered_objects(fork.get("options")):
            label = as_text(option.get("label"))
            if label is None:
                continue
            if fold_case(label) in seen:
                yield (
                    json_pointer(_FORKS, index, "options", position, "label"),
                    phrase(
                        "expected a label of its own (case aside), got ", Quoted(label), " again"
                    ),
                )
            seen.add(fold_case(label))


def _fork_residual(subject: Subject) -> Iterator[Finding]:
    for index, fork in _forks(subject):
        if "exhaustive_because" not in fork and residual_option(fork) is None:
            yield (
                json_pointer(_FORKS, index),
                (
                    "expected a residual option (other, none, no_change, …) or exhaustive_because, "
                    "got neither"
                ),
            )


def _undeclared(subject: Subject, claim: str) -> Iterator[Finding]:
    for index, fork in _forks(subject):
        if fork.get(claim) is not True:
            pointer = json_pointer(_FORKS, index, *([claim] if claim in fork else []))
            yield (
                pointer,
                phrase(f"expected {claim} to be true in a market, got ", Quoted(fork.get(claim))),
            )


def _forks(subject: Subject) -> Numbered:
    if subject.trades:
        yield from numbered_objects(subject.at(_FORKS))


def _sources(subject: Subject) -> Numbered:
    if subject.trades:
        yield from numbered_objects(subject.at(_MARKET, "osint_sources"))


RULES = (
    Rule("family-matches-path", _family_matches_path),
    Rule("other-path-config-absent", _other_path_config_absent),
    Rule("sources-independent", _sources_independent),
    Rule("sources-primary", _sources_primary),
    Rule("forks-exhaustive", _forks_exhaustive, since=CURRENT),
    Rule("forks-exclusive", _forks_exclusive, since=CURRENT),
    Rule("option-labels-distinct", _option_labels_distinct),
    Rule("fork-residual", _fork_residual),
)
