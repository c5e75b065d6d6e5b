"""What `constructs.toml` may say, as written."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError

from theatre.engine.schema_registry import model_message
from theatre.oracles.errors import ConstructRegistryError
from theatre.oracles.limited_process import ProcessLimits

PORT = "{port}"
"""What is in the argv of a program that opens a port for HTTP, for the number of that port."""


class ProgramEntry(BaseModel):
    """A construct that is run here: what to execute, and which files make its version."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    argv: list[str] = Field(min_length=1)
    folder: str
    files: list[str] = Field(min_length=1)
    author: str | None = None
    memory_mb: int = Field(default=ProcessLimits().memory_mb, ge=1)
    cpu_seconds: int | None = Field(default=None, ge=1)
    open_files: int | None = Field(default=None, ge=1)
    start_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    serves_http: bool = False
    network: bool = False

    @property
    def opens_port(self) -> bool:
        """Return whether the program is given the number of a port, and opens it itself."""
        return any(PORT in argument for argument in self.argv)


class RemoteEntry(BaseModel):
    """A construct that is called: where, and which variables hold its request headers."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    url: str = Field(min_length=1)
    headers_env: dict[str, str] = Field(default_factory=dict)
    author: str | None = None


def read_entries(path: Path) -> Mapping[str, ProgramEntry | RemoteEntry]:
    """Return the tables of a registry, by construct id.

    Raises ConstructRegistryError where the file is missing, is not TOML, or a table has
    unknown, missing or mistyped keys.
    """
    return _read(path).constructs


def _read(path: Path) -> _Document:
    try:
        return _Document.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConstructRegistryError(
            f"expected a construct registry at {path}, got: {error.strerror}"
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConstructRegistryError(f"{path}: expected TOML, got: {error}") from error
    except ValidationError as error:
        raise ConstructRegistryError(f"{path}: {_describe(error)}") from error


def read_accepted_templates(path: Path) -> Mapping[str, str]:
    """Return name → content hash of the templates whose certificates count for routing.

    The hash is `theatre.engine.commitment.content_hash`. Errors as `read_entries`.
    """
    return _read(path).accepted_templates


def _way_to_reach(table: object) -> str:
    return "url" if isinstance(table, dict) and "url" in table else "argv"


class _Document(BaseModel):
    """A whole `constructs.toml`, as written."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    constructs: dict[
        str,
        Annotated[
            Annotated[ProgramEntry, Tag("argv")] | Annotated[RemoteEntry, Tag("url")],
            Discriminator(_way_to_reach),
        ],
    ]
    accepted_templates: dict[str, Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]] = Field(
        default_factory=dict
    )


def _describe(error: ValidationError) -> str:
    """Return for each mistake where it is, what was expected and what was found."""
    return "; ".join(
        f"{_place(mistake['loc'])}: {model_message(mistake)}, got {mistake['input']!r:.60}"
        for mistake in error.errors()
    )


def _place(location: tuple[int | str, ...]) -> str:
    """Return a dotted path without the tag that pydantic puts after the construct's id."""
    return ".".join(str(part) for part in (*location[:2], *location[3:]))
