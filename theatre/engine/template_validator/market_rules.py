"""Rules on families, paths and markets (docs/contract/template.md §3)."""

from collections.abc import Iterator, Mapping

from theatre.engine.canonical_json import JsonObject
from theatre.engine.schema_registry import Quoted, json_pointer, phrase
from theatre.engine.template_validator.subject import Finding, Rule, Subject
from theatre.engine.templates import CURRENT, Fork, OsintSource, fold_case

_MARKET = "market_theatre_config"
_FORKS = "fork_definitions"
_DEFAULT_CORROBORATION = 2

_PATH_OF_FAMILY: Mapping[str, str] = {"PRODUCT": "replay", "GEOPOLITICAL": "market"}
_FOREIGN_CONFIG: Mapping[str, str] = {"replay": _MARKET, "market": "product_theatre_config"}


def _family_matches_path(subject: Subject) -> Iterator[Finding]:
    family, path = subject.template.template_family, subject.template.execution_path
    expected = _PATH_OF_FAMILY.get(family)
    if expected is not None and path in _FOREIGN_CONFIG and path != expected:
        yield "/execution_path", f"expected {expected} for the family {family}, got {path}"


def _other_path_config_absent(subject: Subject) -> Iterator[Finding]:
    path = subject.template.execution_path
    foreign = _FOREIGN_CONFIG.get(path)
    if foreign is not None and foreign in subject.template.model_fields_set:
        yield json_pointer(foreign), f"expected no such member where the path is {path}, got one"


def _sources_independent(subject: Subject) -> Iterator[Finding]:
    config = subject.template.market_theatre_config
    if not subject.template.trades or config is None:
        return
    is_written = "corroboration_minimum" in config.model_fields_set
    minimum = config.corroboration_minimum if is_written else _DEFAULT_CORROBORATION
    independent = {
        (fold_case(source.provider), fold_case(source.modality))
        for source in config.osint_sources
        if source.provider is not None and source.modality is not None
    }
    if minimum is not None and len(independent) < minimum:
        inside = ("osint_sources",) if "osint_sources" in config.model_fields_set else ()
        yield (
            json_pointer(_MARKET, *inside),
            phrase(
                "expected at least ",
                Quoted(minimum),
                f" sources that differ in provider or modality, got {len(independent)}",
            ),
        )


def _sources_primary(subject: Subject) -> Iterator[Finding]:
    roles = [source.resolution_role for source in _sources(subject)]
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
        for position, option in enumerate(fork.options):
            if option.label is None:
                continue
            label = fold_case(option.label)
            if label in seen:
                yield (
                    json_pointer(_FORKS, index, "options", position, "label"),
                    phrase(
                        "expected a label of its own (case aside), got ",
                        Quoted(option.label),
                        " again",
                    ),
                )
            seen.add(label)


def _fork_residual(subject: Subject) -> Iterator[Finding]:
    for index, fork in _forks(subject):
        is_explained = "exhaustive_because" in fork.model_fields_set
        if not is_explained and fork.residual_option is None:
            yield (
                json_pointer(_FORKS, index),
                (
                    "expected a residual option (other, none, no_change, …) or exhaustive_because, "
                    "got neither"
                ),
            )


def _undeclared(subject: Subject, claim: str) -> Iterator[Finding]:
    for index, fork in _forks(subject):
        declared = getattr(fork, claim)
        if declared is not True:
            inside = (claim,) if claim in fork.model_fields_set else ()
            yield (
                json_pointer(_FORKS, index, *inside),
                phrase(f"expected {claim} to be true in a market, got ", Quoted(declared)),
            )


def _forks(subject: Subject) -> Iterator[tuple[int, Fork]]:
    if subject.template.trades:
        yield from enumerate(subject.template.fork_definitions)


def _sources(subject: Subject) -> tuple[OsintSource, ...]:
    config = subject.template.market_theatre_config
    return config.osint_sources if config is not None and subject.template.trades else ()


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


# Rules on what identifies the answers of a replay in an export: forks and `rlmf_export_config`.
#
# Source: docs/contract/template.md §6.


_EXPORT_CONFIG = "rlmf_export_config"
_MEMBERS = ("fork_id", "output_path", "truth_path")


def _export_config_complete(subject: Subject) -> Iterator[Finding]:
    mapping = _mapping(subject)
    for member in _MEMBERS if mapping else ():
        text = mapping.get(member)
        if not (isinstance(text, str) and text):
            where = (_EXPORT_CONFIG, member) if member in mapping else (_EXPORT_CONFIG,)
            seen = Quoted(text) if member in mapping else "none"
            yield json_pointer(*where), phrase(f"expected {member} beside the others, got ", seen)


def _export_fork_known(subject: Subject) -> Iterator[Finding]:
    fork_id = _mapping(subject).get("fork_id")
    if isinstance(fork_id, str) and _mapped_fork(subject) is None:
        yield (
            json_pointer(_EXPORT_CONFIG, "fork_id"),
            phrase("expected the fork_id of a fork of this template, got ", Quoted(fork_id)),
        )


def _export_fork_residual(subject: Subject) -> Iterator[Finding]:
    # An answer may be anything: an option must be left for it.
    fork = _mapped_fork(subject)
    if fork is not None and fork.residual_option is None:
        yield (
            json_pointer(_EXPORT_CONFIG, "fork_id"),
            "expected a fork with a residual option (other, none, no_change, …), got one without",
        )


def _export_told_by_fork(subject: Subject) -> Iterator[Finding]:
    template = subject.template
    if not (template.replays and template.fork_definitions) or _mapping(subject):
        return
    if template.judged_fork is None and template.fork_definitions[0].residual_option is None:
        yield (
            json_pointer(_FORKS),
            (
                "expected rlmf_export_config, a fork with the options meets and falls_short, or a "
                "residual option in the first fork; got none: a run cannot be exported"
            ),
        )


def _mapping(subject: Subject) -> JsonObject:
    return subject.template.export_mapping if subject.template.replays else {}


def _mapped_fork(subject: Subject) -> Fork | None:
    fork_id = _mapping(subject).get("fork_id")
    forks = subject.template.fork_definitions
    return next((fork for fork in forks if fork_id and fork.fork_id == fork_id), None)


EXPORT_RULES = (
    Rule("export-config-complete", _export_config_complete, since=CURRENT),
    Rule("export-fork-known", _export_fork_known, since=CURRENT),
    Rule("export-fork-residual", _export_fork_residual, since=CURRENT),
    Rule("export-told-by-fork", _export_told_by_fork, severity="warning"),
)
