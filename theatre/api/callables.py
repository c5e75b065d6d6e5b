"""A callable as the construct of a template: where it is found again, and what is committed."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from theatre.api.errors import UsageError
from theatre.api.rehearsal import with_adapter
from theatre.api.template_files import require_runnable
from theatre.construct_kit.served_construct import declared_id
from theatre.engine.canonical_json import JsonObject
from theatre.engine.templates import product_template
from theatre.oracles.construct_registry import source_of
from theatre.oracles.in_process import construct_from_callable


def with_callable(document: JsonObject, function: Callable[..., object]) -> tuple[JsonObject, Path]:
    """Return a template with a callable as its construct, and the folder its module begins in.

    The version that is pinned is that of its files (docs/constructs.md, "Versions"): an edit is
    another construct. Raises UsageError for a callable that cannot be imported again by
    `module:name`, and for a template of several constructs; InvalidTemplateError.
    """
    template = product_template(require_runnable(document, certificate_run=False).document)
    construct_id = template.product_theatre_config.construct_under_test
    others = template.version_pins.constructs.keys() - {construct_id}
    if others:
        raise UsageError(
            f"expected a template of one construct to put a callable in its place, got one that "
            f"pins {', '.join(sorted(others))}, too: name the callable in its construct_endpoints"
        )
    own = declared_id(function)
    if own not in (None, construct_id):
        raise UsageError(f"expected the construct {construct_id}, got a callable declared as {own}")
    target, folder = find_callable(function)
    version = source_of(construct_from_callable(construct_id, target, folder)).version()
    changed: Any = with_adapter(document, "python", {construct_id: version})
    changed["product_theatre_config"]["adapter_endpoint"] = target
    return changed, folder


def find_callable(function: Callable[..., object]) -> tuple[str, Path]:
    """Return `module:name` of a callable, and the folder in which that module begins.

    It will be imported from there by another process, whatever it was imported as here. Raises
    UsageError for one that no import would find again.
    """
    name = getattr(function, "__qualname__", type(function).__qualname__)
    file = inspect.getsourcefile(function) if inspect.isfunction(function) else None
    if file is None or not name.isidentifier():
        raise UsageError(
            f"expected a function at the top of a module, which another process can import, got "
            f"{name!r:.200}"
        )
    path = Path(file).resolve()
    parts, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file():
        parts, folder = [folder.name, *parts], folder.parent
    if parts[-1] == "__init__":
        parts.pop()
    return f"{'.'.join(parts)}:{name}", folder
