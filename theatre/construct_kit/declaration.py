"""What an author writes: `@construct(id=…)` on a callable, and `Refusal` to decline a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from theatre.construct_kit.source_files import require_version

_MARK = "__construct__"

F = TypeVar("F", bound=Callable[..., object])


class Refusal(Exception):  # noqa: N818  # a refusal is an answer of its own kind, no error
    """Raised by a construct to decline a call; its text is the recorded reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What the decorator says about a callable."""

    construct_id: str
    version: str | None


def construct(
    *,
    id: str,  # noqa: A002  # the word that the envelope and the templates use
    version: str | None = None,
) -> Callable[[F], F]:
    """Declare a callable to be the construct `id`; the callable itself stays as it is.

    It takes `input_data`, a dict, and returns `output_data`, a dict, or an awaitable of one.
    Raising `Refusal` declines the call; any other exception is an error of that call. `version`
    is 7 to 64 hex digits; without it ECHELON_CONSTRUCT_VERSION counts, and without that the
    content hash of the module's files. Raises ConstructVersionError for another `version`.
    """
    declaration = Declaration(
        construct_id=id, version=None if version is None else require_version(version)
    )

    def declare(function: F) -> F:
        setattr(function, _MARK, declaration)
        return function

    return declare


def declaration_of(function: Callable[..., object]) -> Declaration | None:
    """Return what `construct` declared about a callable; None where it declared nothing."""
    declared = getattr(function, _MARK, None)
    return declared if isinstance(declared, Declaration) else None
