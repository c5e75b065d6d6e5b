"""`docs/operations.md` describes the settings that there are, and where the database lies."""

import re
from pathlib import Path

from fastapi.routing import iter_route_contexts
from pydantic_core import PydanticUndefined

from backend.api.operation_routes import router
from backend.auth.credentials import Scope
from backend.database.embedded.programs import OLDEST_MAJOR
from backend.database.sessions import APPLICATION, DATABASE, OWNER
from backend.main import PREFIX
from backend.settings import Settings, variable

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")


def shown(default: object) -> str:
    """Return how the table shows a default."""
    if default is PydanticUndefined or default in (None, ()):
        return "none"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def test_the_table_of_settings_is_the_class_of_settings() -> None:
    rows = re.findall(r"^\| `(ECHELON_\w+)` \| (.+?) \| (.+) \|$", PAGE, re.MULTILINE)
    assert rows == [
        (variable(name), shown(field.default), field.description)
        for name, field in Settings.model_fields.items()
    ]


def test_the_roles_and_the_oldest_version_are_those_of_the_code() -> None:
    for role in (OWNER, APPLICATION):
        assert f"CREATE ROLE {role} LOGIN" in PAGE
    assert f"CREATE DATABASE {DATABASE} OWNER {OWNER};" in PAGE
    assert PAGE.count(f"{OLDEST_MAJOR} or later") == 2


def test_the_paths_of_operators_are_those_that_are_served() -> None:
    listed = set(re.findall(r"^\| `(/[^`]+)` \|", PAGE, re.MULTILINE))
    assert listed == {str(route.path) for route in iter_route_contexts(router.routes)} | {
        f"{PREFIX}/openapi.json"
    }


def test_the_scopes_of_keys_are_named() -> None:
    assert f"Scopes: {', '.join(f'`{scope}`' for scope in Scope)}." in PAGE
