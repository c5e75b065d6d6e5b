"""From `module:name` to a callable: imported from one folder, and from its source."""

import importlib
import sys
import traceback
from collections.abc import Callable
from importlib.abc import PathEntryFinder
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
)
from pathlib import Path
from types import CodeType, ModuleType

from theatre.construct_kit.envelopes import CallableBrokenError, CallableNotFoundError
from theatre.construct_kit.served_construct import ServedConstruct, make_servable


def load_construct(
    target: str, folder: Path, *, construct_id: str | None, version: str | None
) -> ServedConstruct:
    """Return the callable `module:name` below `folder`, ready to be served.

    Raises as `load_callable` and `make_servable`.
    """
    function = load_callable(target, folder)
    return make_servable(function, construct_id=construct_id, version=version, target=target)


def load_callable(target: str, folder: Path) -> Callable[..., object]:
    """Import `module:name` with `folder` first on the path, and return what it names.

    Raises CallableNotFoundError where there is no such module below `folder`, or nothing that
    can be called under that name, and CallableBrokenError where the import raises.
    """
    module_name, _, name = target.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), name)):
        raise CallableNotFoundError(f"expected module:name, got {target!r:.200}")
    folder = folder.resolve()
    _put_on_path(folder, module_name.partition(".")[0])
    module = _import(module_name, folder)
    if not Path(module.__file__ or "/").resolve().is_relative_to(folder):
        raise CallableNotFoundError(
            f"expected module {module_name} in {folder}, got another of that name "
            f"({module.__file__ or 'built in'}): give yours another name"
        )
    named: object = getattr(module, name, None)
    if not callable(named):
        raise CallableNotFoundError(
            f"expected a callable {name} in {module_name}, got {type(named).__name__}"
        )
    return named


class _FromSource(SourceFileLoader):
    """Compiles the source each time. A cached compilation need not be that of the file hashed."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _put_on_path(folder: Path, outermost: str) -> None:
    """Let `folder` come first, and what lies there be read by `_FromSource`."""
    finder = FileFinder.path_hook(
        (ExtensionFileLoader, EXTENSION_SUFFIXES), (_FromSource, SOURCE_SUFFIXES)
    )
    package = folder / outermost

    def find_in(entry: str) -> PathEntryFinder:
        path = Path(entry)
        if path != folder and not path.is_relative_to(package):
            raise ImportError(entry)
        return finder(entry)

    sys.path_hooks.insert(0, find_in)
    sys.path_importer_cache.pop(str(folder), None)
    sys.path.insert(0, str(folder))


def _import(module_name: str, folder: Path) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise _broken(module_name, error) from error
        raise CallableNotFoundError(
            f"expected module {module_name} in {folder}, got none"
        ) from error
    except Exception as error:
        raise _broken(module_name, error) from error


def _broken(module_name: str, error: Exception) -> CallableBrokenError:
    traceback.print_exception(error)
    words = traceback.format_exception_only(error)[-1].strip()
    return CallableBrokenError(f"expected to import {module_name}, got {words}")
