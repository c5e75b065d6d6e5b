"""From a draft to the template that it stands for, but for what files decide. Pure.

A draft is what an author writes (docs/drafts.md): it fills in the members that most templates
have alike. What is committed is the template alone; nothing of the draft is in it.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

from theatre.drafts.errors import DraftError
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import Scorer
from theatre.engine.schema_registry import SchemaRegistry, SchemaViolation, json_pointer
from theatre.engine.templates import FALLS_SHORT, MEETS, NEWEST, theatre_id_of

SCHEMA = "echelon_draft_schema.json"
DEFAULT_SCORER = "exact_match"
DEFAULT_SOURCE = "CUSTOM"

_OF_A_MEASURE = ("scorer", "answer", "weight", "qualification")
_MODEL = re.compile(r"(openai|anthropic):([^@]+)(?:@(https?://.+))?")
_PROVIDERS: Mapping[str, tuple[str, str]] = {
    "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "anthropic": ("https://api.anthropic.com", "ANTHROPIC_API_KEY"),
}
"""Where each provider is, and the variable of its key, where a draft names a model alone."""
_CALLABLE = re.compile(r"[A-Za-z_][\w./]*?(\.py)?:[A-Za-z_]\w*")
_LONGEST_CRITERION = 32


def compile_draft(draft: JsonObject, scorers: Mapping[str, Scorer]) -> JsonObject:
    """Return the template of a draft, without hashes of data and versions of constructs.

    What `template` says goes over it. Raises DraftError, with every mistake of the draft; the
    rules of templates are not looked at.
    """
    faults = draft_faults(draft, scorers)
    if faults:
        raise DraftError(faults)
    document = {"schema_version": NEWEST, **(_defaults(draft, scorers) if _calls(draft) else {})}
    merged = merge(document, cast("JsonObject", draft.get("template", {})))
    return _with_scorers(merged, scorers)


def merge(under: JsonObject, over: JsonObject) -> JsonObject:
    """Return `under` with the members of `over`: objects are merged, all else is replaced."""
    merged = dict(under)
    for name, value in over.items():
        below = merged.get(name)
        both = isinstance(below, dict) and isinstance(value, dict)
        merged[name] = (
            merge(cast("JsonObject", below), cast("JsonObject", value)) if both else value
        )
    return merged


# What can be wrong with a draft.


def draft_faults(draft: JsonObject, scorers: Mapping[str, Scorer]) -> list[SchemaViolation]:
    """Return everything that is wrong with a draft itself; empty where it can be compiled."""
    found = SchemaRegistry().validate(SCHEMA, draft)
    if found:
        return [_with_nearest(one) for one in found]
    return [*_missing(draft), *_unknown_constructs(draft), *_unknown_scorers(draft, scorers)]


def _with_nearest(fault: SchemaViolation) -> SchemaViolation:
    """Return a fault of the schema; for a key that it does not know, with the nearest it knows."""
    known, _, unknown = fault.detail.removeprefix("expected only ").rpartition("; got ")
    if fault.rule != "schema:additionalProperties" or not unknown:
        return fault
    near = nearest(unknown.strip("'\""), known.split(", "))
    return SchemaViolation(fault.pointer, "unknown-key", f"{fault.detail}{near}")


def nearest(word: str, known: Iterator[str] | list[str]) -> str:
    """Return ": did you mean …?" with the known word that is nearest; "" where none is near."""
    close = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f": did you mean {close[0]}?" if close else ""


def _missing(draft: JsonObject) -> Iterator[SchemaViolation]:
    """Yield what a draft must say and does not, or says twice."""
    for one, other in (("construct", "chain"), ("measure", "measures")):
        if one in draft and other in draft:
            yield SchemaViolation(f"/{other}", "draft-one-of", f"expected {one} or {other}")
    template = cast("JsonObject", draft.get("template", {}))
    if {"product_theatre_config", "market_theatre_config"} & template.keys():
        return
    if not _calls(draft):
        yield SchemaViolation(
            "",
            "draft-construct",
            "expected construct, got none: module:name of a Python function, a URL, "
            "openai:MODEL@URL, or a list with the arguments of a program",
        )
    if "data" not in draft:
        yield SchemaViolation(
            "", "draft-data", "expected data, got none: the path of a JSONL file of episodes"
        )


def _unknown_constructs(draft: JsonObject) -> Iterator[SchemaViolation]:
    for pointer, written in _calls(draft):
        if isinstance(written, str) and _read_text(written) is None:
            yield SchemaViolation(
                pointer,
                "draft-construct",
                f"expected module:name of a Python function, an http(s) URL, openai:MODEL@URL, "
                f"construct:<id>, or a list with the arguments of a program; got {written!r:.80}",
            )


def _unknown_scorers(draft: JsonObject, scorers: Mapping[str, Scorer]) -> Iterator[SchemaViolation]:
    for pointer, written in _written_measures(draft):
        measure = _as_object(written)
        name = measure.get("scorer", DEFAULT_SCORER)
        scorer = scorers.get(str(name))
        if scorer is None:
            near = nearest(str(name), list(scorers)) or f": there are {', '.join(scorers)}"
            detail = f"expected an installed scorer, got {name!r:.80}{near}"
            yield SchemaViolation(pointer, "scorer-known", detail)
            continue
        known = [*_OF_A_MEASURE, *_parameters(scorer)]
        for key in measure.keys() - set(known):
            yield SchemaViolation(
                json_pointer(*pointer.strip("/").split("/"), key),
                "unknown-key",
                f"expected only {', '.join(known)}; got {key!r}{nearest(key, known)}",
            )


# What a draft says, as values.


class _Subject(NamedTuple):
    """A construct of a draft; `place` is its `adapter_endpoint`, `version` what is stated."""

    construct_id: str
    adapter_type: str
    place: str | None = None
    version: str | None = None
    settings: JsonValue = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Criterion:
    """A criterion of a draft, as the template will have it."""

    criterion_id: str
    scorer: str
    params: JsonObject = field(default_factory=dict)
    weight: JsonValue = None
    qualification: JsonValue = None


def _calls(draft: JsonObject) -> list[tuple[str, JsonValue]]:
    """Return pointer and value of each construct, in call order."""
    if "chain" in draft:
        chain = cast("list[JsonValue]", draft["chain"])
        return [(f"/chain/{number}", one) for number, one in enumerate(chain)]
    return [("/construct", draft["construct"])] if "construct" in draft else []


def _subject(written: JsonValue) -> _Subject:
    if isinstance(written, str):
        return cast("_Subject", _read_text(written))
    if isinstance(written, list):
        return _program([str(word) for word in written])
    entry: Any = written
    place = entry.get("endpoint")
    if isinstance(place, list):
        guessed = _program(place).construct_id
        place = json.dumps(place, ensure_ascii=False)
    else:
        read = _read_text(place or "")
        guessed = read.construct_id if read is not None else entry["adapter"]
        if entry["adapter"] == "python" and read is not None:
            place = read.place
    # A model or a tool is known by its name, and not by the host that serves it.
    settings = entry.get("settings", {})
    named = settings.get("tool", settings.get("model"))
    if isinstance(named, str):
        guessed = _id_of(named) or guessed
    return _Subject(
        construct_id=entry.get("id", guessed),
        adapter_type=entry["adapter"],
        place=place,
        version=entry.get("version"),
        settings=entry.get("settings"),
    )


def _id_of(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")[:64]


def _read_text(written: str) -> _Subject | None:
    """Return what a text stands for; None where it is none of the forms."""
    if found := _MODEL.fullmatch(written):
        kind, model, place = found.groups()
        own, key = _PROVIDERS[kind]
        return _Subject(
            construct_id=_id_of(model) or kind,
            adapter_type=kind,
            place=place or own,
            settings={"model": model, **({} if place else {"key_env": key})},
        )
    scheme, _, rest = written.partition(":")
    if scheme in {"http", "https"}:
        host = urlsplit(written).hostname or "service"
        return _Subject(construct_id=host.partition(".")[0], adapter_type="http", place=written)
    if scheme == "construct" and rest:
        return _Subject(construct_id=rest, adapter_type="local", place=written)
    if not _CALLABLE.fullmatch(written) or ".." in written:
        return None
    module = scheme.removesuffix(".py").replace("/", ".")
    return _Subject(
        construct_id=module.rpartition(".")[2], adapter_type="python", place=f"{module}:{rest}"
    )


def _program(argv: list[str]) -> _Subject:
    """Return the construct of an argv; its id is the name of the first file after the program."""
    named = next((word for word in argv[1:] if PurePosixPath(word).suffix), argv[0])
    return _Subject(
        construct_id=PurePosixPath(named).stem,
        adapter_type="local",
        place=json.dumps(argv, ensure_ascii=False),
    )


def _written_measures(draft: JsonObject) -> list[tuple[str, JsonValue]]:
    """Return pointer and value of each measure; where a template has criteria, none by default."""
    if "measures" in draft:
        several = cast("JsonObject", draft["measures"])
        return [(json_pointer("measures", name), one) for name, one in several.items()]
    is_asked = "measure" in draft or "answer" in draft
    template = cast("JsonObject", draft.get("template", {}))
    if not is_asked and "criteria" in template:
        return []
    return [("/measure", draft.get("measure", DEFAULT_SCORER))]


def _as_object(measure: JsonValue) -> JsonObject:
    return measure if isinstance(measure, dict) else {"scorer": measure}


def _criteria(draft: JsonObject, scorers: Mapping[str, Scorer]) -> list[_Criterion]:
    names = [*cast("JsonObject", draft.get("measures", {}))]
    criteria = []
    for number, (_, written) in enumerate(_written_measures(draft)):
        measure = _as_object(written)
        scorer = scorers[str(measure.get("scorer", DEFAULT_SCORER))]
        answer = measure.get("answer", draft.get("answer"))
        params = {name: one for name, one in measure.items() if name not in _OF_A_MEASURE}
        criteria.append(
            _Criterion(
                criterion_id=names[number] if names else _name_of(answer),
                scorer=scorer.name,
                params={**_paths(answer, scorer), **params},
                weight=measure.get("weight"),
                qualification=measure.get("qualification"),
            )
        )
    return criteria


def _paths(answer: JsonValue, scorer: Scorer) -> JsonObject:
    """Return `field` and `expected` for a scorer, as far as it takes them."""
    if answer is None:
        return {}
    # An object says only what it says: some scorers hold an answer against no expectation.
    both: JsonObject = answer if isinstance(answer, dict) else {"field": answer, "expected": answer}
    return {name: path for name, path in both.items() if name in _parameters(scorer)}


def _parameters(scorer: Scorer) -> list[str]:
    return [*cast("JsonObject", scorer.params_schema.get("properties", {}))]


def _name_of(answer: JsonValue) -> str:
    """Return the id of the one criterion of a draft: `right_` and the member that counts."""
    path = answer["field"] if isinstance(answer, dict) else answer
    words = [] if path is None else re.findall(r"[a-z0-9]+", str(path).lower())
    return "_".join(["right", *words])[:_LONGEST_CRITERION].rstrip("_")


# The members that most templates have alike.


def _defaults(draft: JsonObject, scorers: Mapping[str, Scorer]) -> JsonObject:
    """Return the template of a draft that says what is called, without its `template`."""
    subjects = [_subject(written) for _, written in _calls(draft)]
    criteria = _criteria(draft, scorers)
    tested = subjects[-1]
    measured: JsonObject = {
        "criteria_ids": [one.criterion_id for one in criteria],
        "criteria_human": draft.get("rubric") or _rubric(criteria),
    }
    if any(one.weight is not None for one in criteria):
        measured["weights"] = {
            one.criterion_id: one.weight for one in criteria if one.weight is not None
        }
    files = {
        one.criterion_id: one.qualification for one in criteria if one.qualification is not None
    }
    relied_on: JsonObject = {name: {"dataset": _qualification_of(name)} for name in files}
    paths: JsonObject = {_qualification_of(name): path for name, path in files.items()}
    return {
        "theatre_id": draft.get("id", theatre_id_of(tested.construct_id)),
        "template_family": "PRODUCT",
        "execution_path": "replay",
        "display_name": draft.get("name", tested.construct_id[:100]),
        "criteria": measured,
        "version_pins": {
            "constructs": {
                one.construct_id: one.version for one in subjects if one.version is not None
            },
            "adapter_version": f"{tested.adapter_type}@1",
        },
        "resolution_programme": _programme(subjects),
        "fork_definitions": [
            {
                "fork_id": "f_01",
                "options": [
                    {"option_id": MEETS, "label": "Meets the expectation"},
                    {"option_id": FALLS_SHORT, "label": "Falls short of it"},
                ],
            }
        ],
        "scoring": {
            "criteria_scorers": {
                one.criterion_id: {"scorer": one.scorer, "params": one.params} for one in criteria
            },
            **({"qualifications": relied_on} if files else {}),
        },
        "product_theatre_config": {
            "ground_truth_source": draft.get("source", DEFAULT_SOURCE),
            **_reach(subjects),
            **_data(draft),
            **({"dataset_paths": paths} if files else {}),
        },
    }


def _qualification_of(criterion: str) -> str:
    """Return the name of the dataset that is the qualification of a criterion's measure."""
    return f"{criterion}_qualification"


def _rubric(criteria: list[_Criterion]) -> str:
    sentences = []
    for one in criteria:
        about = one.params.get("field", "the whole answer")
        sentences.append(f"{one.criterion_id}: {one.scorer} of {about}.")
    return " ".join(sentences)[:2000]


def _programme(subjects: list[_Subject]) -> list[JsonValue]:
    several = len(subjects) > 1
    calls: list[JsonValue] = [
        {
            "step_id": f"ask_{one.construct_id}" if several else "ask",
            "type": "construct_invocation",
            "construct_id": one.construct_id,
        }
        for one in subjects
    ]
    return [*calls, {"step_id": "sum_up", "type": "aggregation"}]


def _reach(subjects: list[_Subject]) -> JsonObject:
    """Return how the constructs are reached: the last one, and the others of a chain."""
    tested = subjects[-1]
    reach: JsonObject = {
        "construct_under_test": tested.construct_id,
        "adapter_type": tested.adapter_type,
    }
    if tested.place is not None:
        reach["adapter_endpoint"] = tested.place
    if tested.settings is not None:
        reach["adapter_settings"] = tested.settings
    if len(subjects) > 1:
        reach["construct_chain"] = [one.construct_id for one in subjects]
        reach["construct_endpoints"] = {
            one.construct_id: {
                "adapter_type": one.adapter_type,
                "endpoint": one.place or f"construct:{one.construct_id}",
                **({} if one.settings is None else {"adapter_settings": one.settings}),
            }
            for one in subjects[:-1]
        }
    return reach


def _data(draft: JsonObject) -> JsonObject:
    if "data" not in draft:
        return {}
    written = draft["data"]
    data = written if isinstance(written, dict) else {"path": written}
    path = str(data["path"])
    name = data.get("name") or PurePosixPath(path).stem
    return {"replay_dataset_id": name, "replay_data_path": path}


def _with_scorers(document: JsonObject, scorers: Mapping[str, Scorer]) -> JsonObject:
    """Return a template with the version of each scorer that it uses, unless it states one."""
    used = _members(_members(document, "scoring"), "criteria_scorers")
    names = dict.fromkeys(str(_members(used, one).get("scorer")) for one in used)
    versions = {name: scorers[name].version for name in names if name in scorers}
    if not versions:
        return document
    label = ", ".join(f"{name}@{version}" for name, version in versions.items())
    stated: JsonObject = {
        "version_pins": {"scorer_version": label},
        "scorer_pins": {name: version for name, version in versions.items()},  # noqa: C416  # for mypy
    }
    return merge(document, merge(stated, {name: document.get(name, {}) for name in stated}))


def _members(document: JsonObject, name: str) -> JsonObject:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


# What is asked of a construct without a wrapper, where a draft leaves it to its data. `pin` writes
# it into the template: what is committed says it in full.


def default_prompt(input_data: Mapping[str, JsonValue]) -> str:
    """Return the placeholder for what is asked: the only member of an input, or all of it."""
    names = [*input_data]
    return f"{{{{{json_pointer(names[0])}}}}}" if len(names) == 1 else "{{}}"


def default_answer(fields: Sequence[str], expected: Mapping[str, JsonValue]) -> JsonObject:
    """Return how an answer is read: a member that is a text as it is, anything else as JSON."""
    if len(fields) != 1:
        return {"from": "json"}
    (name,) = fields
    return {"from": "text" if isinstance(expected.get(name), str) else "json", "field": name}
