"""What a draft says of files: hashes of its data, versions of its constructs, and what changed."""

import ast
import contextlib
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, cast

from pydantic import ValidationError

from theatre.drafts.compilation import (
    compile_draft,
    default_answer,
    default_prompt,
    merge,
    nearest,
)
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.errors import TheatreError
from theatre.engine.models import GroundTruthEpisode, Scorer, read_episodes
from theatre.engine.schema_registry import SchemaViolation, json_pointer
from theatre.engine.scoring.measure_policy import Qualification
from theatre.engine.templates import ProductTheatreTemplate, read_template
from theatre.files.datasets import DatasetFile, DatasetRoots
from theatre.oracles.construct_registry import RegisteredConstruct
from theatre.oracles.endpoints import Endpoint, Places, construct_at, endpoints, version_at

_ASKED_ADAPTERS = ("openai", "anthropic", "command", "container")
"""Those that are asked a text and answer one."""

_UNKNOWN = "0" * 64
"""Stands where a hash could not be had, so that the other rules can be looked at."""

_SHOWN_CHARACTERS = 60


class PinnedDraft(NamedTuple):
    """The template of a draft, and the data and constructs that could not be had for it.

    With a problem the document is none to commit: the hash that is missing is all zeros.
    """

    document: JsonObject
    problems: tuple[SchemaViolation, ...] = ()


FindTools = Callable[[Endpoint], Mapping[str, str]]
"""Returns each tool that an MCP server lists, with its hash; raises TheatreError."""


def resolve_draft(
    draft: JsonObject,
    *,
    scorers: Mapping[str, Scorer],
    places: Places,
    datasets: DatasetRoots,
    find_tools: FindTools,
) -> PinnedDraft:
    """Return the template of a draft with what could be had; DraftError as `compile_draft`.

    A hash or a version that the draft states stays as stated: a run holds it against the files.
    `find_tools` is asked only for a server whose `tool_sha256` is not stated.
    """
    problems: list[SchemaViolation] = []
    document = _with_tools(compile_draft(draft, scorers), find_tools, problems)
    document = _with_asking(document, draft, datasets)
    view = _product_view(document)
    if view is None:
        return PinnedDraft(document=document)
    hashes: JsonObject = {}
    for name, path in view.product_theatre_config.data_paths().items():
        if name and name not in view.dataset_hashes:
            hashes[name] = _hash_of(name, path, datasets, problems)
    versions: JsonObject = {}
    for endpoint in endpoints(view):
        if endpoint.construct_id not in view.version_pins.constructs:
            versions[endpoint.construct_id] = _version_of(endpoint, places, problems)
    pins: JsonObject = {
        "dataset_hashes": hashes,
        "version_pins": {"constructs": versions},
        **_qualifications(document, view, datasets, problems),
    }
    return PinnedDraft(document=merge(document, pins), problems=tuple(problems))


def _qualifications(
    document: JsonObject,
    view: ProductTheatreTemplate,
    datasets: DatasetRoots,
    problems: list[SchemaViolation],
) -> JsonObject:
    """Return the hash of each qualification that is named without one, as it is merged."""
    scoring = cast("dict[str, Any]", document["scoring"])
    paths, found = view.product_theatre_config.data_paths(), dict[str, JsonValue]()
    for criterion, one in scoring.get("qualifications", {}).items():
        path = paths.get(one["dataset"])
        if "sha256" in one or path is None:
            continue
        try:
            with contextlib.closing(DatasetFile(datasets.find(path))) as file:
                found[criterion] = {"sha256": Qualification.read(file.lines(), sha256=None).sha256}
        except TheatreError as error:
            pointer = json_pointer("scoring", "qualifications", criterion)
            problems.append(SchemaViolation(pointer, "qualification-fits", str(error)))
            found[criterion] = {"sha256": _UNKNOWN}
    return {"scoring": {"qualifications": found}} if found else {}


def _product_view(document: JsonObject) -> ProductTheatreTemplate | None:
    """Return a replay template as a value; None for any other, and for one that cannot be read."""
    try:
        view = read_template(document)
    except ValidationError:
        return None
    return view if isinstance(view, ProductTheatreTemplate) else None


def _with_tools(
    document: JsonObject, find_tools: FindTools, problems: list[SchemaViolation]
) -> JsonObject:
    """Return a template with the hash of each tool of an MCP server, unless it states one."""
    view = _product_view(document)
    for endpoint in () if view is None else endpoints(view):
        name = endpoint.settings.get("tool")
        if (
            endpoint.adapter_type != "mcp"
            or "tool_sha256" in endpoint.settings
            or not isinstance(name, str)
        ):
            continue
        found: JsonObject = {
            "adapter_settings": {"tool_sha256": _tool_hash(endpoint, name, find_tools, problems)}
        }
        if not endpoint.pointer.endswith("/adapter_endpoint"):
            found = {"construct_endpoints": {endpoint.construct_id: found}}
        document = merge(document, {"product_theatre_config": found})
    return document


def _with_asking(document: JsonObject, draft: JsonObject, datasets: DatasetRoots) -> JsonObject:
    """Return a template with what is asked, and how the answer is read, where the draft is silent.

    Both follow from the first episode. In a chain a construct answers another one, so there the
    adapter's own defaults hold.
    """
    view = _product_view(document)
    config = None if view is None else view.product_theatre_config
    if config is None or config.adapter_type not in _ASKED_ADAPTERS or config.construct_chain:
        return document
    first = _first_episode(config.replay_data_path, datasets)
    if {"prompt", "answer"} <= config.adapter_settings.keys() or first is None:
        return document
    answer = draft.get("answer", "")
    paths: Any = answer if isinstance(answer, dict) else {"field": answer}
    # A dotted path leads into an object, and that is JSON.
    fields = [one for one in (paths["field"],) if one and "." not in one]
    expected = (first.expected_output or {}).get(paths.get("expected", paths["field"]))
    asked: JsonObject = {
        "prompt": default_prompt(first.input_data),
        "answer": default_answer(fields, dict.fromkeys(fields, expected)),
        **config.adapter_settings,
    }
    return merge(document, {"product_theatre_config": {"adapter_settings": asked}})


def _first_episode(path: str | None, datasets: DatasetRoots) -> GroundTruthEpisode | None:
    """Return the first episode; None where it cannot be had, as other rules say."""
    if path is None:
        return None
    try:
        with contextlib.closing(DatasetFile(datasets.find(path))) as file:
            return next(read_episodes(file.lines()), None)
    except TheatreError:
        return None


def _tool_hash(
    endpoint: Endpoint, name: str, find_tools: FindTools, problems: list[SchemaViolation]
) -> str:
    pointer = "/product_theatre_config/adapter_settings/tool"
    try:
        tools = find_tools(endpoint)
    except TheatreError as error:
        problems.append(SchemaViolation(endpoint.pointer, "construct-version", str(error)))
        return _UNKNOWN
    if name not in tools:
        detail = f"expected a tool of {endpoint.place}, got {name!r:.80}"
        near = nearest(name, [*tools]) or f": there are {', '.join(tools) or 'none'}"
        problems.append(SchemaViolation(pointer, "construct-version", f"{detail}{near}"))
        return _UNKNOWN
    return tools[name]


def _hash_of(
    name: str, path: str, datasets: DatasetRoots, problems: list[SchemaViolation]
) -> JsonValue:
    try:
        dataset = DatasetFile(datasets.find(path))
    except TheatreError as error:
        problems.append(
            SchemaViolation(json_pointer("dataset_hashes", name), "dataset-file", str(error))
        )
        return _UNKNOWN
    dataset.close()
    return dataset.sha256


def _version_of(endpoint: Endpoint, places: Places, problems: list[SchemaViolation]) -> JsonValue:
    pointer = json_pointer("version_pins", "constructs", endpoint.construct_id)
    try:
        construct = construct_at(endpoint, places)
        if isinstance(construct, RegisteredConstruct) and endpoint.adapter_type == "python":
            problems += _callable_faults(pointer, endpoint.place, construct.folder)
        version = version_at(endpoint, construct)
    except TheatreError as error:
        problems.append(SchemaViolation(pointer, "construct-version", str(error)))
        return _UNKNOWN
    if version is not None:
        return version
    problems.append(
        SchemaViolation(
            pointer,
            "construct-version",
            f"expected a version for {endpoint.place}, got none: it cannot be computed here. Say "
            f"what the service reports: construct: {{adapter: {endpoint.adapter_type}, endpoint: "
            f"{endpoint.place}, version: …}}",
        )
    )
    return _UNKNOWN


def _callable_faults(pointer: str, target: str, folder: Path) -> Iterator[SchemaViolation]:
    """Yield why a callable cannot be loaded, as far as its text says so: nothing is imported.

    Found by a run it would cost the retries of each episode.
    """
    module, _, name = target.partition(":")
    path = folder / f"{module.replace('.', '/')}.py"
    if not path.is_file():
        return
    try:
        tree = ast.parse(path.read_bytes(), filename=path.name)
    except (SyntaxError, ValueError) as error:
        yield SchemaViolation(pointer, "construct-syntax", f"expected Python in {path}: {error}")
        return
    names = {one for statement in tree.body for one in _names_of(statement)}
    if name not in names and "*" not in names:
        detail = f"expected a function {name} in {path}, got none{nearest(name, sorted(names))}"
        yield SchemaViolation(pointer, "construct-callable", detail)
    for statement in tree.body if "." not in module else []:
        for missing in _not_importable(statement):
            yield SchemaViolation(
                pointer,
                "construct-import",
                f"expected {path} to import what is installed, got {missing}: install it, or list "
                "a module of your own in constructs.toml",
            )


def _names_of(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement may bind; `*` where its text does not say which."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (one.asname or one.name for one in names)
        case ast.Assign(targets=targets):
            yield from (one.id for one in targets if isinstance(one, ast.Name))
        case ast.Expr():
            return
        case _:
            yield "*"


def _not_importable(statement: ast.stmt) -> Iterator[str]:
    named: list[str] = []
    if isinstance(statement, ast.Import):
        named = [one.name for one in statement.names]
    elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
        named = [statement.module]
    for one in named:
        outermost = one.partition(".")[0]
        if find_spec(outermost) is None:
            yield outermost


def stale_versions(view: ProductTheatreTemplate, places: Places) -> list[SchemaViolation]:
    """Return each construct that is not found, or has another version here than is pinned.

    A version that cannot be computed here says nothing.
    """
    found: list[SchemaViolation] = []
    for endpoint in endpoints(view):
        pointer = json_pointer("version_pins", "constructs", endpoint.construct_id)
        pinned = view.version_pins.constructs[endpoint.construct_id]
        try:
            version = version_at(endpoint, construct_at(endpoint, places))
        except TheatreError as error:
            found.append(SchemaViolation(pointer, "construct-version", str(error)))
            continue
        if version not in (None, pinned):
            detail = (
                f"expected the pinned version {pinned[:12]}… of {endpoint.construct_id}, got "
                f"{str(version)[:12]}…: its files or settings changed; pin it again"
            )
            found.append(SchemaViolation(pointer, "construct-version", detail))
    return found


# What changed between a template that was pinned and what the draft gives now.


def changes(before: JsonObject, after: JsonObject) -> list[str]:
    """Return one line for each place at which two templates differ, by name; empty where none."""
    return [*_differences(before, after, ())]


def _differences(before: JsonValue, after: JsonValue, at: tuple[str, ...]) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in {**before, **after}:
            if name not in before:
                yield f"{json_pointer(*at, name)}: new, {_shown(after[name])}"
            elif name not in after:
                yield f"{json_pointer(*at, name)}: gone, was {_shown(before[name])}"
            else:
                yield from _differences(before[name], after[name], (*at, name))
    elif canonical_bytes(before) != canonical_bytes(after):
        yield f"{_subject_of(at)}: {_shown(before)} → {_shown(after)}"


def _subject_of(at: tuple[str, ...]) -> str:
    """Name the thing at a place in words where it is data or a construct, else by pointer."""
    match at:
        case ("dataset_hashes", name):
            return f"the data {name} changed"
        case ("version_pins", "constructs", name):
            return f"the construct {name} changed"
        case _:
            return json_pointer(*at)


def _shown(value: JsonValue) -> str:
    if isinstance(value, str) and len(value) == len(_UNKNOWN):
        return f"{value[:12]}…"
    text = canonical_bytes(value).decode()
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
