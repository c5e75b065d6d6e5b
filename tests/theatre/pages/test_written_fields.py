"""Every text that anybody can write is tried on the pages, or stands here with the reason.

The fields are those of the schemas and of the interface's description: a new one is tried by
itself, or makes a test fail until it is placed.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from backend.main import PAGES
from tests.theatre.pages.test_hostile_text import (
    PLANTED,
    UNVERIFIED,
    WORTH,
    page_of,
    require_text,
    values_of,
)
from tests.theatre.pages.test_served_hostile_text import CERTIFICATE, FIELDS
from theatre.pages import served
from theatre.pages.badge import render_badge
from theatre.pages.certificate_page import render_certificate, render_report

DOCS = Path(__file__).parents[3] / "docs"
SCHEMAS = {
    "certificate": "echelon_certificate_schema.json",
    "template": "echelon_theatre_schema_v2_2.json",
}
CRITERION = "source_fidelity"
CLOSED = "its pattern lets nothing hostile through"
UNSEEN = "it stands on no page"
BY_SCHEMA = "each field of the template's schema is tried below"
AS_EPISODE = "it becomes episodes, whose texts are tried in test_hostile_text.py"
WRITTEN = {
    "answer_audit.coin": CLOSED,
    "answer_audit.request.certificate_id": UNSEEN,
    "answer_audit.request.coin_sha256": CLOSED,
    "answer_audit.request.episode_root": CLOSED,
    "answer_audit.request.open_by": "log/entries/5/members/open_by",
    "answer_audit.request.statement_sha256": CLOSED,
    "append_debate_events.events[].detail": UNSEEN,
    "append_debate_events.events[].event_type": UNSEEN,
    "change_password.new_password": UNSEEN,
    "change_password.old_password": UNSEEN,
    "commit_theatre.expected_commitment_hash": CLOSED,
    "create_key.name": UNSEEN,
    "create_theatre": BY_SCHEMA,
    "create_theatre.template_json": BY_SCHEMA,
    "evaluate_debate.labels": UNSEEN,
    "issue_token.client_id": UNSEEN,
    "issue_token.client_secret": UNSEEN,
    "issue_token.password": UNSEEN,
    "issue_token.scope": UNSEEN,
    "issue_token.username": "sign-in/username",
    "register.email": UNSEEN,
    "register.invite": UNSEEN,
    "register.password": UNSEEN,
    "register.username": "home/certificates/0/run_by",
    "register_construct.author": UNSEEN,
    "register_construct.construct_id": "construct/record/construct_id",
    "request_audit.certificate_id": UNSEEN,
    "request_audit.coin_sha256": CLOSED,
    "request_audit.episode_root": CLOSED,
    "request_audit.open_by": "log/entries/5/members/open_by",
    "request_audit.statement_sha256": CLOSED,
    "run_theatre.answers_path": CLOSED,
    "run_theatre.ground_truth_path": UNSEEN,
    "run_verification.construct.construct_id": CLOSED,
    "run_verification.construct.endpoint": "in the template that is made of it, by its schema",
    "run_verification.construct.version": CLOSED,
    "run_verification.judge.model": "in the template that is made of it, by its schema",
    "run_verification.judge.qualification": CLOSED,
    "run_verification.source.commit_range": CLOSED,
    "run_verification.source.dataset": CLOSED,
    "run_verification.source.labels[]": UNSEEN,
    "run_verification.source.path": CLOSED,
    "run_verification.source.repository": CLOSED,
    "run_verification.source.since": CLOSED,
    "run_verification.source.until": CLOSED,
    "submit_debate": UNSEEN,
    "submit_scores.rubric_sha256": CLOSED,
    "submit_scores.scores[].episode_id": "theatre/rating/items/0/episode_id",
    "submit_scores.scores[].rationale": "theatre/comments",
    "upload_dataset": AS_EPISODE,
}
"""Field of a request → where `test_served_hostile_text.py` tries it, or why it need not."""
ASKED = {
    ("/", "search"): "home/search",
    ("/", "cursor"): "home/next_cursor",
    ("/constructs/{construct_id}", "construct_id"): "construct/record/construct_id",
    ("/badge/{construct_id}.svg", "construct_id"): "test_hostile_text.py tries badges",
    ("/templates/{template_id}", "template_id"): BY_SCHEMA,
    ("/templates/{template_id}", "sha256"): CLOSED,
    ("/static/{name}", "name"): UNSEEN,
    ("/static/{name}", "v"): UNSEEN,
}
"""Path of a page and a text that its address has → the same."""


def flat(schema: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with what its references and alternatives allow, all together."""
    parts = [one for kind in ("anyOf", "oneOf", "allOf") for one in schema.get(kind, ())]
    if "$ref" in schema:
        found: Any = root
        for name in schema["$ref"].lstrip("#/").split("/"):
            found = found[name]
        parts.append(found)
    merged = {**schema}
    for one in (flat(part, root) for part in parts):
        properties = {**one.get("properties", {}), **merged.get("properties", {})}
        merged = {**one, **merged, "properties": properties}
        # Of alternatives the one that says most is taken: an object, a list, a text.
        merged["type"] = max(one.get("type", ""), merged.get("type", ""), key=_weight)
    return merged


def _weight(kinds: Any) -> int:  # noqa: ANN401 - a name or several
    order = ("null", "boolean", "integer", "number", "string", "array", "object")
    return max(
        (order.index(one) for one in ([kinds] if isinstance(kinds, str) else kinds) if one),
        default=-1,
    )


def filled(schema: Mapping[str, Any], root: Mapping[str, Any], text: str | None, have: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return `have` with every member that a schema knows, and `text` for each open text."""
    schema = flat(schema, root)
    if schema.get("properties") or names_of(schema) or isinstance(have, dict):
        given = have if isinstance(have, dict) else {}
        open_ones = {name: one for one in names_of(schema) for name in given or [CRITERION]}
        known = {**open_ones, **schema.get("properties", {})}
        return {
            **given,
            **{name: filled(one, root, text, given.get(name)) for name, one in known.items()},
        }
    if "items" in schema:
        return [filled(schema["items"], root, text, one) for one in have or [None]]
    if "enum" in schema or "const" in schema:
        return have or schema.get("const", next(iter(schema.get("enum", [None]))))
    if _weight(schema.get("type", "")) == _weight("string"):
        return text
    return 1 if have is None and schema.get("type") else have


def names_of(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the schemas of members with any name."""
    more = schema.get("additionalProperties")
    return [
        *schema.get("patternProperties", {}).values(),
        *([more] if isinstance(more, dict) else []),
    ]


def texts(
    schema: Mapping[str, Any], root: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """Yield the path of each text of a request that its schema leaves open; `[]` is any item."""
    parts = [one for kind in ("anyOf", "oneOf") for one in schema.get(kind, ())]
    if "$ref" in schema:
        parts.append(root["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    for one in parts:
        yield from texts(one, root, path)
    inner = [(name, one) for name, one in schema.get("properties", {}).items()]
    inner += [("[]", schema["items"])] if "items" in schema else []
    for name, one in inner:
        yield from texts(one, root, (*path, name))
    is_text = schema.get("type") == "string" and not {"enum", "const"} & schema.keys()
    # Of a document without members in the description, all of it is open.
    if is_text or (schema.get("type") == "object" and not inner):
        yield path


@pytest.mark.parametrize("kind", PLANTED)
@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_text_of_a_schema_is_text_on_every_page(schema: str, kind: str) -> None:
    root = json.loads((DOCS / "schemas" / SCHEMAS[schema]).read_bytes())
    values = values_of("product_observer_v1")
    values[schema] = filled(root, root, PLANTED[kind], values[schema])
    pages = [page_of(values, worth) for worth in (WORTH, UNVERIFIED)]
    shown = [render(page) for page in pages for render in (render_certificate, render_report)]
    if schema == "template":
        document = {"template_json": values[schema], "sha256": "ab", "description": None}
        receipt = {"commitment_hash": "ab", "committed_at": "2026-12-01T00:00:00Z"}
        shown += [
            served.template_page({**document, "template_family": PLANTED[kind]}),
            served.theatre_page(
                CERTIFICATE,
                user=None,
                tokens={},
                receipt={**receipt, "template_snapshot": values[schema]},
            ),
        ]
    badges = [render_badge(values["certificate"], worth) for worth in (WORTH, UNVERIFIED)]
    for one in (*shown, *badges):
        require_text(one)


def request_fields() -> set[str]:
    """Return every text that a request's body can have, after the name of its operation."""
    description = json.loads((DOCS / "openapi.json").read_bytes())
    found = set()
    for operations in description["paths"].values():
        for operation in operations.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                for path in texts(content.get("schema", {}), description):
                    joined = ".".join((operation["operationId"], *path)).replace(".[]", "[]")
                    found.add(joined)
    return found


def page_texts() -> set[tuple[str, str]]:
    """Return every text that the address of a page can have, but for ids."""
    return {
        (route.path_format, one.name)  # type: ignore[attr-defined]
        for router in PAGES
        for route in router.routes
        for one in (*route.dependant.path_params, *route.dependant.query_params)  # type: ignore[attr-defined]
        if str in {one.field_info.annotation, *getattr(one.field_info.annotation, "__args__", ())}
    }


def test_every_text_of_a_request_is_tried_or_listed_with_the_reason() -> None:
    assert request_fields() == WRITTEN.keys()
    assert page_texts() == ASKED.keys()
    tried = {"/".join(map(str, (page, *path))) for page, path in FIELDS}
    for where in (*WRITTEN.values(), *ASKED.values()):
        assert " " in where or where in tried, where
