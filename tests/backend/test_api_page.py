"""`docs/api.md`: its requests are sent to a real service, its table is that of the routes."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi.routing import iter_route_contexts
from starlette.routing import compile_path

from backend.api.http.access_policy import Access, DeclaredRoute
from backend.main import RESOURCES, create_app
from tests.backend.databases import Database
from tests.backend.serving import Client, Reply, served, settings_for
from tests.theatre.echelon_process import CARTOGRAPH

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
EXCHANGE = re.compile(
    r"```http\n(?P<request>.*?)```\n\n→ (?P<status>\d{3})(?:, (?P<header>[^\n]+))?\n"
    r"(?:\n```json\n(?P<answer>.*?)```)?",
    re.DOTALL,
)
ROW = re.compile(r"^\| `(GET|POST|DELETE) (/[^`]+)` \| ([PUOD]) \|", re.MULTILINE)
WHO = {Access.PUBLIC: "P", Access.USER: "U", Access.OWNER: "O", Access.DISCLOSED: "D"}
NAME = re.compile(r"\{([a-z_]+)\}")


@dataclass(slots=True)
class Reader:
    """Follows the page; a `{name}` in an answer is what it was, or what it is from there on."""

    known: dict[str, str] = field(default_factory=dict)

    def send(self, client: Client, request: str) -> Reply:
        head, _, body = self.filled(request).partition("\n\n")
        (method, path), *lines = [line.split(" ", 1) for line in head.strip().split("\n")]
        headers = {name.rstrip(":"): value for name, value in lines}
        return client.ask(method, path, body=body.strip().encode() or None, headers=headers)

    def filled(self, text: str) -> str:
        return NAME.sub(lambda found: self.known.get(found[1], found[0]), text)

    def compare(self, shown: Any, seen: Any) -> None:  # noqa: ANN401 - JSON
        """Every member that is shown is there."""
        if isinstance(shown, dict):
            assert isinstance(seen, dict)
            for name, value in shown.items():
                self.compare(value, seen[name])
        elif isinstance(shown, list):
            assert len(shown) == len(seen)
            for one, other in zip(shown, seen, strict=True):
                self.compare(one, other)
        elif isinstance(shown, str) and shown != "…":
            self.compare_text(shown, seen)
        elif shown != "…":
            assert shown == seen

    def compare_text(self, shown: str, seen: str) -> None:
        pattern = re.escape(self.filled(shown))
        for name in NAME.findall(self.filled(shown)):
            pattern = pattern.replace(re.escape(f"{{{name}}}"), f"(?P<{name}>.+)")
        found = re.fullmatch(pattern, seen)
        assert found is not None, (shown, seen)
        self.known.update(found.groupdict())


def test_every_request_of_the_page_is_answered_as_it_says(
    database: Database, tmp_path: Path
) -> None:
    reader = Reader({"template": CARTOGRAPH.read_text()})
    exchanges = list(EXCHANGE.finditer(PAGE))
    assert len(exchanges) == PAGE.count("```http")
    with served(create_app(settings_for(database, tmp_path))) as client:
        for exchange in exchanges:
            reply = reader.send(client, exchange["request"])
            assert reply.status == int(exchange["status"]), (exchange["request"], reply)
            if exchange["header"] is not None:
                name, value = exchange["header"].split(": ", 1)
                reader.compare_text(value, reply.headers[name.lower()])
            if exchange["answer"] is not None:
                reader.compare(json.loads(exchange["answer"]), reply.document)


def test_the_table_is_that_of_the_routes() -> None:
    served_routes = set()
    for router in RESOURCES:
        for context in iter_route_contexts(router.routes):
            route = context.original_route
            assert isinstance(route, DeclaredRoute)
            path = compile_path(str(context.path))[1]
            who = WHO[route.declared.access]
            served_routes |= {(method, path, who) for method in context.methods or ()}
    assert {row.groups() for row in ROW.finditer(PAGE)} == served_routes
