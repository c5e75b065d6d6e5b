"""A construct's version: given in hex, or computed of the files of its module.

`theatre.oracles.python_callable` computes the same on the engine's side, without importing the
module; a test holds them together.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

from theatre.construct_kit.errors import ConstructVersionError
from theatre.engine.canonical_json import sha256_hex
from theatre.engine.oracle_contract import program_version, served_argv

_VERSION = re.compile(r"[a-f0-9]{7,64}")


def require_version(text: str) -> str:
    """Return `text`. Raises ConstructVersionError where no pin could name it."""
    if _VERSION.fullmatch(text) is None:
        raise ConstructVersionError(
            f"expected a construct version of 7 to 64 hex digits, as a pin has, got {text!r:.100}"
        )
    return text


def content_version(target: str) -> str:
    """Return the version of a callable of an imported module, `module:name`, 64 hex digits.

    It is that of the program which serves the callable on stdin. Its files are the module's own
    or, where it belongs to a package, every `*.py` in the outermost one; paths begin with the
    name of file or package. Raises ConstructVersionError for a module that was not read from a
    file.
    """
    module_name, _, name = target.partition(":")
    module = sys.modules[module_name]
    root, files = _files_of(_outermost(module))
    hashes = {path.relative_to(root).as_posix(): sha256_hex(path.read_bytes()) for path in files}
    return program_version(served_argv(f"{_import_name(module)}:{name}"), hashes)


def _import_name(module: ModuleType) -> str:
    # A module that is run as a program is called `__main__`: its spec, or its file, says more.
    if module.__name__ != "__main__":
        return module.__name__
    return Path(module.__file__ or "").stem if module.__spec__ is None else module.__spec__.name


def _outermost(module: ModuleType) -> ModuleType:
    return sys.modules.get(_import_name(module).partition(".")[0], module)


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
