"""Whatever is refused, wherever, is a problem document; what no client can act on is internal."""

import importlib
import logging
import pkgutil
from collections.abc import Iterator

import pytest
from psycopg.errors import DiskFull
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

import backend
import theatre
from backend.api.http.problem_types import BY_ERROR, BY_SLUG, INTERNAL, kind_of
from backend.errors import (
    BackendError,
    MigrationError,
    RequestInvalidError,
    RequestRefusedError,
    RequestViolation,
)
from backend.main import create_app
from tests.backend import faults
from tests.backend.databases import Database
from tests.backend.serving import Client, served, settings_for
from tests.theatre.echelon_process import until
from theatre.engine.errors import (
    HumanScoreRefusedError,
    InvalidTransitionError,
    JournalError,
    ParseError,
    TheatreError,
)

PROGRAMS = (
    *("theatre.axion", "theatre.cli", "theatre.files.tables", "theatre.harness", "theatre.judging"),
    *("theatre.verification", "tests"),
)
"""What the service does not call: nothing that it raises gets there."""
SECRET = "hunter2-hunter2"  # noqa: S105 - the value that must not come back


@pytest.fixture(scope="module")
def client(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    home = tmp_path_factory.mktemp("home")
    app = create_app(settings_for(module_database, home, worker_in_api=False))
    app.include_router(faults.router)
    with served(app) as client:
        yield client


def classes_below(base: type[Exception]) -> set[type[Exception]]:
    found = {base}
    for one in base.__subclasses__():
        found |= classes_below(one)
    return found


def test_no_class_of_error_shows_its_message_unsaid() -> None:
    """A class has its line in the table, or is internal: it takes no kind from one above it."""
    for package in (theatre, backend):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    reachable = {
        error
        for base in (TheatreError, BackendError)
        for error in classes_below(base)
        if not error.__module__.startswith(PROGRAMS)
    }
    assert set(BY_ERROR) < reachable
    unsaid = reachable - set(BY_ERROR) - {RequestRefusedError}
    assert {error for error in unsaid if kind_of(error.__new__(error)) is not INTERNAL} == set()


def test_each_kind_is_explained_under_its_type(client: Client) -> None:
    for slug, kind in BY_SLUG.items():
        assert client.get(f"/problems/{slug}").document == {
            "type": f"/problems/{slug}",
            "title": kind.title,
            "status": kind.status,
            "explanation": kind.explanation,
        }
    assert client.get("/problems/no-such").slug == "not-found"


def test_slugs_are_unambiguous() -> None:
    kinds = {*BY_ERROR.values(), *BY_SLUG.values()}
    assert sorted(kind.slug for kind in kinds) == sorted(BY_SLUG)


@pytest.mark.parametrize("error", BY_ERROR, ids=lambda error: error.__name__)
def test_each_error_is_answered_with_its_kind(client: Client, error: type[Exception]) -> None:
    made = error.__new__(error)
    Exception.__init__(made, f"expected nothing, got {SECRET}")
    made.__dict__.update(reason="not-json", refusals=(), violations=())
    faults.faults.error = made
    reply = client.get("/fault")
    kind = BY_ERROR[error]
    assert (reply.slug, reply.status) == (kind.slug, kind.status)
    if not kind.shows_message:
        assert reply.document["detail"] == kind.explanation
        assert SECRET not in reply.body.decode()


@pytest.mark.parametrize(
    ("error", "status", "slug"),
    [
        (PoolTimeoutError(), 503, "not-ready"),
        (ConnectionRefusedError(), 503, "not-ready"),
        (RuntimeError(SECRET), 500, "internal-error"),
        (JournalError(SECRET), 500, "internal-error"),
        (MigrationError(SECRET), 500, "internal-error"),
        (RequestRefusedError("debate-closed", "it is"), 409, "debate-closed"),
        (RequestRefusedError("content-too-large", "it is"), 413, "content-too-large"),
        (HumanScoreRefusedError([("scorer-is-author", "no")]), 403, "identity-separation"),
        (HumanScoreRefusedError([("item-already-scored", "no")]), 409, "duplicate-submission"),
        (HumanScoreRefusedError([("score-off-scale", "no")]), 422, "human-score-refused"),
    ],
)
def test_what_is_raised_within_a_route_is_answered(
    client: Client, error: Exception, status: int, slug: str
) -> None:
    faults.faults.error = error
    reply = client.get("/fault")
    assert (reply.status, reply.slug) == (status, slug)
    assert SECRET not in reply.body.decode()


def test_why_the_database_refuses_stands_in_the_log_and_in_no_answer(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    full = DiskFull("could not extend file: No space left on device")
    faults.faults.error = DBAPIError("INSERT", None, full)
    with caplog.at_level(logging.INFO, "backend.api.http.middleware"):
        reply = client.get("/fault")
        # The line is written when the answer is on its way.
        logged = until(lambda: [one for one in caplog.records if one.msg == "request"], "its line")
    assert (reply.slug, b"space" in reply.body) == ("not-ready", False)
    (fields,) = (one.__dict__["fields"] for one in logged)
    assert fields["cause"] == "DiskFull: could not extend file: No space left on device"


def test_what_is_raised_outside_of_a_route_is_answered(client: Client) -> None:
    assert client.get("/nothing/here").slug == "not-found"
    assert client.get("/livez/").slug == "not-found"
    refused = client.post("/livez", {})
    assert (refused.slug, refused.headers["allow"]) == ("method-not-allowed", "GET, HEAD, OPTIONS")
    refused = client.ask("PUT", "/api/v1/keys")
    assert (refused.slug, refused.headers["allow"]) == (
        "method-not-allowed",
        "GET, HEAD, OPTIONS, POST",
    )
    refused = client.get("/keys")
    assert (refused.slug, refused.headers["www-authenticate"]) == ("unauthenticated", "Bearer")
    assert client.form("/auth/register", name="x").slug == "unsupported-media-type"


def test_a_long_detail_and_many_violations_are_cut(client: Client) -> None:
    faults.faults.error = InvalidTransitionError("x" * 5000)
    assert client.get("/fault").document["detail"] == "x" * 2000
    faults.faults.error = RequestInvalidError([RequestViolation("/" * 999, "rule", "no")] * 999)
    errors = client.get("/fault").document["errors"]
    assert errors == [{"pointer": "/" * 300, "rule": "rule", "detail": "no"}] * 200


def test_the_submitted_value_never_comes_back(client: Client) -> None:
    for body in (
        {"username": SECRET + " ", "email": SECRET, "password": SECRET[:3]},
        f'{{"username": "a", "{SECRET}": 1, "{SECRET}": 2}}'.encode(),
        {"username": [SECRET], "email": {"x": SECRET}, "password": SECRET, "mode": SECRET},
        b'{"username": 99999999999999999999999999}',
    ):
        reply = client.post("/auth/register", body)
        assert reply.status in (400, 422)
        assert SECRET not in reply.body.decode()
        assert "9" * 10 not in reply.body.decode()
    assert SECRET not in client.get(f"/livez?mode={SECRET}&x=1").body.decode()


def test_every_violation_is_named_at_its_place(client: Client) -> None:
    reply = client.post("/auth/register", {"username": "", "email": "a@b.c", "more": 1})
    assert reply.document["errors"] == [
        {
            "pointer": "/username",
            "rule": "string_too_short",
            "detail": "String should have at least 1 character",
        },
        {"pointer": "/password", "rule": "missing", "detail": "Field required"},
        {"pointer": "/more", "rule": "extra_forbidden", "detail": "Extra inputs are not permitted"},
    ]
    reply = client.get("/livez?x=1")
    assert reply.document["errors"] == [
        {"pointer": "query", "rule": "unknown-parameter", "detail": "expected no parameters"}
    ]


def test_a_parser_says_why_in_words_that_a_program_knows(client: Client) -> None:
    faults.faults.error = ParseError("expected a JSON object, got an array", reason="not-object")
    assert client.get("/fault").document["errors"] == [
        {"pointer": "", "rule": "not-object", "detail": "expected a JSON object, got an array"}
    ]


def test_no_page_of_a_problem_can_run_anything(client: Client) -> None:
    reply = client.get("/%3Cscript%3Ealert(1)%3C/script%3E")
    assert reply.slug == "not-found"
    assert b"<script" not in reply.body
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["content-security-policy"].startswith("default-src 'none'")
    assert reply.headers["cache-control"] == "no-store"


def test_the_kinds_whose_messages_are_not_for_callers() -> None:
    silent = {kind.slug for kind in BY_SLUG.values() if not kind.shows_message}
    assert silent == {
        *("internal-error", "not-ready", "unauthenticated", "not-found", "validation-error"),
        *("template-invalid", "debate-invalid"),
    }
