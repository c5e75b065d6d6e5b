"""The rubric runner: how a model is asked about anything by a rubric, and how it is read.

Whatever is judged brings its prompts as files, a schema of the answers to each, and its limits. All
else is the same for summaries of changes and for turns of debates, and stands here.
"""

import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Final, TypeAlias, TypeVar, cast

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_sha256
from theatre.engine.schema_registry import SchemaRegistry
from theatre.judging import messages
from theatre.judging.messages import ANTHROPIC, PROVIDERS

MAX_TOKENS: Final = 8192
_REGISTRY: Final = SchemaRegistry()

ResultT = TypeVar("ResultT")
Asking: TypeAlias = Generator[JsonObject, JsonObject, ResultT]
"""Yields requests to a judge, is sent what came of each, and returns what that comes to."""


def object_of(**properties: JsonValue) -> JsonObject:
    """Return the schema of an object that has exactly these members."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }


def array_of(items: JsonObject) -> JsonObject:
    """Return the schema of an array of `items`."""
    return {"type": "array", "items": items}


def one_of(values: Iterable[str]) -> JsonObject:
    """Return the schema of a text that is one of `values`."""
    return {"type": "string", "enum": list(values)}


@dataclass(frozen=True, slots=True)
class Limit:
    """How much of something a judge is shown or asked: what is usual, and what may be."""

    usual: int
    least: int
    most: int

    @classmethod
    def fixed(cls, value: int) -> "Limit":
        """Return a limit that no one may choose."""
        return cls(value, value, value)


@dataclass(frozen=True, kw_only=True)
class Rubrics:
    """The rubrics by which one kind of thing is judged.

    `package` has them in its folder `prompts`, `schemas` says by name which answers fit: it is
    sent to the API, and answers are checked by it. `parser` is the version of what is asked
    apart from the rubrics, and of how answers are read and counted.
    """

    package: str
    schemas: Mapping[str, JsonObject]
    parser: str
    limits: Mapping[str, Limit]

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """Return name → text: the system prompt of its requests."""
        folder = files(self.package).joinpath("prompts")
        return {
            name: folder.joinpath(f"{name}.md").read_text(encoding="utf-8") for name in self.schemas
        }

    @cached_property
    def sha256(self) -> str:
        """Return the hash of all texts: the version of the methodology."""
        return canonical_sha256(dict(self.texts))

    @property
    def version(self) -> str:
        """Return the version of what is judged so: other texts, or another reading, is another."""
        return f"{self.parser}-{self.sha256[:12]}"

    def request(self, name: str, judge: JsonObject, data: JsonObject, seed: str) -> JsonObject:
        """Return the request that has `judge`, as committed, look at `data` by a rubric.

        The options of each choice stand in an order that `seed` draws, in the rubric and in the
        schema: a judge that prefers a place prefers no verdict.
        """
        schema = self.schemas[name]
        orders = {frozenset(choice): ordered(seed, choice) for choice in _choices(schema)}
        text = _BULLETS.sub(lambda found: _bullets(found[0], orders), self.texts[name])
        return messages.request(text, cast("JsonObject", _reordered(schema, orders)), judge, data)

    def read(self, name: str, answer: JsonObject) -> JsonObject | None:
        """Return what a judge answered by a rubric, or None where that is not usable."""
        return messages.read_answer(self.schemas[name], answer)

    def ask(
        self, name: str, judge: JsonObject, data: JsonObject, seed: str
    ) -> Asking[JsonObject | None]:
        """Ask once by a rubric; return what was answered, or None where that is not usable."""
        return self.read(name, (yield self.request(name, judge, data, seed)))

    def committed(
        self, model: str, *, temperature: int | None, provider: str = ANTHROPIC, **limits: int
    ) -> JsonObject:
        """Return everything that decides how a judge is asked and read, as one object.

        `temperature` is None for a model that takes none, `limits` are in the place of the usual.
        """
        return {
            "provider": provider,
            "model": model,
            "temperature": temperature,
            "prompts": self.sha256,
            "parser": self.parser,
            **{name: limit.usual for name, limit in self.limits.items()},
            **limits,
        }

    @property
    def judge_schema(self) -> JsonObject:
        """Return the schema of `committed`."""
        limits: JsonObject = {
            name: {"type": "integer", "minimum": limit.least, "maximum": limit.most}
            for name, limit in self.limits.items()
        }
        return object_of(
            provider={"enum": [*PROVIDERS]},
            model={"type": "string", "minLength": 1, "maxLength": 200},
            temperature={"enum": [0, None]},
            prompts={"const": self.sha256},
            parser={"const": self.parser},
            **limits,
        )

    def knows(self, judge: JsonObject) -> bool:
        """Return whether `judge` is asked and read as in this version, with any model."""
        return not _REGISTRY.validate_inline(self.judge_schema, judge)


ItemT = TypeVar("ItemT", str, int)


def ordered(seed: str, items: Iterable[ItemT]) -> list[ItemT]:
    """Return `items`, which differ, in the order that `seed` draws."""
    return sorted(items, key=lambda item: canonical_sha256([seed, item]))


_BULLETS = re.compile(r"^( *)- `\w+`: .*\n(?:\1- `\w+`: .*\n)*", re.MULTILINE)
_NAME = re.compile(r"- `(\w+)`: ")


def _choices(schema: JsonValue) -> Iterator[list[str]]:
    inner = schema if isinstance(schema, list) else []
    if isinstance(schema, dict):
        if "enum" in schema:
            yield cast("list[str]", schema["enum"])
        inner = list(schema.values())
    for one in inner:
        yield from _choices(one)


def _reordered(schema: JsonValue, orders: Mapping[frozenset[str], list[str]]) -> JsonValue:
    if isinstance(schema, list):
        return [_reordered(one, orders) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: [*orders[frozenset(cast("list[str]", one))]]
        if name == "enum"
        else _reordered(one, orders)
        for name, one in schema.items()
    }


def _bullets(lines: str, orders: Mapping[frozenset[str], list[str]]) -> str:
    """Return neighbouring points of a rubric in the order of the choice that they explain."""
    by_name = {_NAME.findall(line)[0]: line for line in lines.splitlines(keepends=True)}
    return "".join(by_name[name] for name in orders.get(frozenset(by_name), [*by_name]))
