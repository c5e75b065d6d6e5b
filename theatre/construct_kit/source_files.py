"""A construct's version: given in hex, or the content hash of the files of its module.

`theatre.oracles.python_callable` computes the same hash on the engine's side, without importing
the module; the two rooms share no code, a test holds them together.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

from theatre.construct_kit.errors import ConstructVersionError
from theatre.engine.canonical_json import sha256_hex

_VERSION = re.compile(r"[a-f0-9]{7,64}")


def require_version(text: str) -> str:
    """Return `text`. Raises ConstructVersionError where no pin could name it."""
    if _VERSION.fullmatch(text) is None:
        raise ConstructVersionError(
            f"expected a construct version of 7 to 64 hex digits, as a pin has, got {text!r:.100}"
        )
    return text


def content_version(module_name: str) -> str:
    """Return the content hash of an imported module, 64 hex digits.

    SHA-256 over the sorted lines `<sha256>  <path>` of the module's file or, where it belongs
    to a package, of every `*.py` in the outermost one; paths begin with the name of file or
    package. Raises ConstructVersionError for a module that was not read from a file.
    """
    root, files = _files_of(_outermost(sys.modules[module_name]))
    lines = [
        f"{sha256_hex(path.read_bytes())}  {path.relative_to(root).as_posix()}\n".encode()
        for path in files
    ]
    return sha256_hex(b"".join(sorted(lines)))


def _outermost(module: ModuleType) -> ModuleType:
    # A module that is run as a program is called `__main__`; its spec has the name it came by.
    name = module.__name__ if module.__spec__ is None else module.__spec__.name
    return sys.modules.get(name.partition(".")[0], module)


def _files_of(module: ModuleType) -> tuple[Path, list[Path]]:
    if hasattr(module, "__path__"):
        package = Path(next(iter(module.__path__)))
        return package.parent, [path for path in package.rglob("*.py") if path.is_file()]
    if module.__file__ is None:
        raise ConstructVersionError(
            f"expected {module.__name__} as a file, so that its hash can be its version, got a "
            "module without one: give a version"
        )
    path = Path(module.__file__)
    return path.parent, [path]
