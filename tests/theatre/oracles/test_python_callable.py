"""`python@1`: what every adapter owes the engine, and what a callable in particular gets."""

import asyncio
import os
import textwrap
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.theatre.construct_kit.kit_process import version_of
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import (
    Attempt,
    OracleAdapter,
    OracleInvocationRequest,
    OracleInvocationResponse,
    RehearsalAdapter,
)
from theatre.oracles.construct_registry import RegisteredConstruct, construct_version
from theatre.oracles.errors import ConstructFilesError, ConstructRegistryError
from theatre.oracles.in_process import PythonOracleAdapter, construct_from_callable
from theatre.oracles.limited_process import ProcessLimits

RequestFor = Callable[..., OracleInvocationRequest]

NOW = datetime(2026, 11, 21, 2, 7, tzinfo=UTC)

PILOT = """
import os
import sys
import time

from theatre.construct_kit import Refusal, construct

print("a word at the start")


@construct(id="pilot")
def answer(input_data):
    print("a word in between")
    match input_data["do"]:
        case "succeed":
            return {"n": 1}
        case "refuse":
            raise Refusal("not my field")
        case "fail":
            raise LookupError("no idea")
        case "look round":
            return {
                "folder": os.getcwd(),
                "files": os.listdir(),
                "home": os.environ["HOME"],
                "secret": os.environ.get("PLANTED_SECRET"),
                "path": [entry for entry in sys.path if entry in ("", os.getcwd())],
            }
        case "crash":
            os._exit(9)
        case "hang":
            # Far behind every timeout of the tests; a loop would burn a core until then.
            time.sleep(60)


@construct(id="somebody-else")
def other(input_data):
    return {}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pilot.py").write_text(textwrap.dedent(PILOT), encoding="utf-8")
    return tmp_path


def build(folder: Path, target: str = "pilot:answer") -> PythonOracleAdapter:
    """Return an adapter whose clocks stand still, so that attempts compare whole."""
    construct = construct_from_callable("pilot", target, folder)
    return PythonOracleAdapter(construct, clock=lambda: NOW, monotonic=lambda: 0.0)


def ask(adapter: OracleAdapter, *requests: OracleInvocationRequest) -> list[Attempt]:
    """Make the calls one after the other, and close the adapter twice."""

    async def session() -> list[Attempt]:
        attempts = [await adapter.invoke(request) for request in requests]
        await adapter.aclose()
        await adapter.aclose()
        return attempts

    return asyncio.run(session())


def to_do(
    request_for: RequestFor, folder: Path, *actions: str, target: str = "pilot:answer"
) -> list[OracleInvocationRequest]:
    """Return a request under the right pin for each action."""
    version = str(build(folder, target).computed_version)
    return [
        request_for(seq, version=version, input_data={"do": action})
        for seq, action in enumerate(actions, start=1)
    ]


def outcomes(attempts: list[Attempt]) -> list[tuple[str, str | None, str | None]]:
    """Return status, reason and detail of each attempt."""
    return [(a.response.status.value, a.reason, a.response.error_detail) for a in attempts]


def test_it_reports_what_a_callable_did_and_never_raises(
    folder: Path, request_for: RequestFor
) -> None:
    requests = to_do(request_for, folder, "succeed", "refuse", "fail", "nothing", "crash")
    attempts = ask(build(folder), *requests)
    assert outcomes(attempts) == [
        ("success", None, None),
        ("refused", None, "not my field"),
        ("error", None, "LookupError: no idea"),
        ("error", None, "expected the callable to return a dict, got null"),
        ("error", "crashed", "expected an answer line, got the end of the process: exit code 9"),
    ]
    assert attempts[0].response == OracleInvocationResponse(
        invocation_id=requests[0].invocation_id,
        construct_id="pilot",
        construct_version=requests[0].construct_version,
        output_data={"n": 1},
        latency_ms=0,
        status=InvocationStatus.SUCCESS,
        responded_at="2026-11-21T02:07:00.000000Z",
    )


def test_prints_are_complaints(folder: Path, request_for: RequestFor) -> None:
    attempts = ask(build(folder), *to_do(request_for, folder, "succeed", "succeed"))
    said = "".join(attempt.stderr or "" for attempt in attempts)
    assert said == "a word at the start\na word in between\na word in between\n"


def test_an_adapter_names_itself_and_computes_the_version(folder: Path) -> None:
    adapter = build(folder)
    assert isinstance(adapter, OracleAdapter)
    assert not isinstance(adapter, RehearsalAdapter)
    assert (adapter.pin, adapter.computed_version) == ("python@1", version_of(folder, "pilot.py"))


def test_another_pin_is_a_version_mismatch(folder: Path, request_for: RequestFor) -> None:
    (attempt,) = ask(build(folder), request_for(input_data={"do": "succeed"}))
    assert (attempt.response.status, attempt.reason) == (InvocationStatus.ERROR, "version-mismatch")
    assert attempt.response.construct_version == build(folder).computed_version


def test_an_edit_shows_at_the_next_start(folder: Path, request_for: RequestFor) -> None:
    crash, success = to_do(request_for, folder, "crash", "succeed")
    before = build(folder).computed_version
    adapter = build(folder)

    async def session() -> tuple[Attempt, str]:
        await adapter.invoke(crash)
        (folder / "pilot.py").write_text(PILOT + "\n", encoding="utf-8")
        attempt = await adapter.invoke(success)
        version = adapter.computed_version
        await adapter.aclose()
        return attempt, version

    attempt, after = asyncio.run(session())
    assert attempt.reason == "version-mismatch"
    assert after not in {before, ""}


def test_a_callable_that_was_declared_under_another_id_is_not_called(
    folder: Path, request_for: RequestFor
) -> None:
    requests = to_do(request_for, folder, "succeed", target="pilot:other")
    (attempt,) = ask(build(folder, "pilot:other"), *requests)
    assert (attempt.reason, attempt.response.error_detail) == (
        "wrong-construct-id",
        "expected construct_id pilot (pinned), got somebody-else (reported)",
    )


def test_a_callable_that_hangs_is_ended(folder: Path, request_for: RequestFor) -> None:
    (request,) = to_do(request_for, folder, "hang")
    short = replace(request.metadata, timeout_seconds=2)
    (attempt,) = ask(build(folder), replace(request, metadata=short))
    assert (attempt.response.status, attempt.reason) == (InvocationStatus.TIMEOUT, "timeout")


def test_a_callable_sees_neither_our_environment_nor_our_folder(
    folder: Path, request_for: RequestFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED_SECRET", "do not tell")
    (attempt,) = ask(build(folder), *to_do(request_for, folder, "look round"))
    seen = attempt.response.output_data
    assert seen is not None
    assert (seen["files"], seen["secret"], seen["path"]) == ([], None, [])
    assert seen["folder"] == seen["home"] != os.getcwd()  # noqa: PTH109  # as the child says it


def test_a_module_that_cannot_be_imported_is_a_crash_with_its_traceback(
    folder: Path, request_for: RequestFor
) -> None:
    (folder / "pilot.py").write_text("1 / 0\n", encoding="utf-8")
    (attempt,) = ask(build(folder), *to_do(request_for, folder, "succeed"))
    assert attempt.reason == "crashed"
    assert "ZeroDivisionError: division by zero" in (attempt.stderr or "")


def test_a_construct_from_a_callable_is_one_that_the_kit_serves(folder: Path) -> None:
    construct = construct_from_callable(
        "pilot", "pilot:answer", folder, limits=ProcessLimits(cpu_seconds=5)
    )
    assert construct == RegisteredConstruct(
        construct_id="pilot",
        argv=(
            *("{python}", "-P", "-m", "theatre.construct_kit", "--stdio"),
            *("--folder", "{folder}", "pilot:answer"),
        ),
        folder=folder,
        files=("pilot.py",),
        limits=ProcessLimits(cpu_seconds=5),
    )


@pytest.mark.parametrize("target", ["pilot", "pilot:", ":answer", "a/b:c", "..pilot:x", "p:a.b"])
def test_a_target_of_another_form_is_refused(folder: Path, target: str) -> None:
    with pytest.raises(ConstructRegistryError, match="expected module:name, got"):
        construct_from_callable("pilot", target, folder)


def test_a_module_without_source_in_the_folder_is_refused(folder: Path) -> None:
    (folder / "compiled.abi3.so").write_bytes(b"")
    for name in ("absent", "json", "compiled"):
        with pytest.raises(ConstructFilesError, match=f"expected the source of module {name} in"):
            construct_from_callable("pilot", f"{name}:answer", folder)


def test_a_compiled_module_beside_the_source_would_be_imported_so_it_is_refused(
    folder: Path,
) -> None:
    (folder / "pilot.abi3.so").write_bytes(b"")
    with pytest.raises(ConstructFilesError, match="expected the source of module pilot in"):
        construct_from_callable("pilot", "pilot:answer", folder)


def test_a_symbolic_link_has_no_version(folder: Path) -> None:
    (folder / "linked.py").symlink_to(folder / "pilot.py")
    construct = construct_from_callable("pilot", "linked:answer", folder)
    with pytest.raises(ConstructFilesError, match="expected plain files, got the symbolic link"):
        construct_version(construct)
