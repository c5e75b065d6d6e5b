"""YAML as this project reads it: no key twice, and every value written out, as in JSON."""

import re
from collections.abc import Hashable
from typing import Any

import yaml

from theatre.engine.errors import ParseError

# PyYAML raises these for a tagged scalar that it cannot convert, and for deep nesting.
_ESCAPES = (ValueError, IndexError, AttributeError, RecursionError)


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key that comes twice: a second `tier: PROVEN` must not win quietly.

    It refuses aliases, too: nine lines of them stand for a billion values.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Return the next node; ParseError for an alias."""
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]  # not in its stubs
            line = event.start_mark.line + 1
            raise ParseError(f"expected a value, got the alias *{event.anchor} at line {line}")
        return super().compose_node(parent, index)

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002  # yaml's signature
    ) -> dict[Hashable, Any]:
        """Return the mapping; ParseError for a repeated key."""
        mapping = super().construct_mapping(node, deep=deep)
        if len(mapping) != len(node.value):
            line = node.start_mark.line + 1
            raise ParseError(f"expected each key once in the mapping at line {line}")
        return mapping


class _JsonLoader(_StrictLoader):
    """Reads plain words as JSON has them: a label `no` is a text, and so is a date."""


# PyYAML copies the table of the base for each class; this one begins with none.
_JsonLoader.yaml_implicit_resolvers = {}


for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:bool", r"true|false", "tf"),
    ("tag:yaml.org,2002:null", r"null|~|", "n~\0"),
    ("tag:yaml.org,2002:int", r"-?(0|[1-9][0-9]*)", "-0123456789"),
    (
        "tag:yaml.org,2002:float",
        r"-?(0|[1-9][0-9]*)(\.[0-9]+([eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)",
        "-0123456789",
    ),
):
    _JsonLoader.add_implicit_resolver(
        _tag, re.compile(rf"(?:{_pattern})\Z"), [one.replace("\0", "") for one in _first]
    )


def parse_yaml(data: bytes, *, as_json: bool = False) -> object:
    """Return the value of a YAML document.

    With `as_json` a plain word is a text unless JSON has it as a number, true, false or null.
    Raises ParseError for what is no YAML, and for a key that comes twice.
    """
    try:
        return yaml.load(data, _JsonLoader if as_json else _StrictLoader)  # noqa: S506  # SafeLoaders
    except (yaml.YAMLError, *_ESCAPES) as error:
        raise ParseError(f"expected YAML, got: {str(error)[:300]}") from error
