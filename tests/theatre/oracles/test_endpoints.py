"""Which construct a template means, for each of its ids, and by which adapter it is reached."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.cli.doubler import write_module, write_theatre
from theatre.api.workspace import Workspace
from theatre.engine.canonical_json import parse_object
from theatre.engine.errors import ProgrammeError
from theatre.engine.templates import product_template
from theatre.oracles.construct_registry import (
    ConstructRegistry,
    RegisteredConstruct,
    RemoteConstruct,
)
from theatre.oracles.endpoints import (
    Endpoint,
    Places,
    construct_at,
    endpoints,
    refuse_unused_headers,
)
from theatre.oracles.errors import (
    ConstructRegistryError,
    ConstructTransportError,
    RequestHeadersError,
    UnknownConstructError,
)

URL = "https://construct.example/invoke"
REGISTRY = f"""
[constructs.local]
argv = ["{{python}}", "{{folder}}/doubling.py"]
folder = "."
files = ["doubling.py"]

[constructs.served]
argv = ["{{python}}", "{{folder}}/doubling.py", "{{port}}"]
folder = "."
files = ["doubling.py"]
serves_http = true
network = true

[constructs.remote]
url = "{URL}"
headers_env = {{X-Key = "REMOTE_KEY"}}
"""


def invoking(*construct_ids: str) -> list[dict[str, Any]]:
    return [
        {"step_id": f"call_{n}", "type": "construct_invocation", "construct_id": construct_id}
        for n, construct_id in enumerate(construct_ids)
    ]


def found(
    folder: Path,
    *,
    adapter_type: str,
    endpoint: str | None = None,
    **changes: Any,  # noqa: ANN401 - as `write_theatre`
) -> list[tuple[str, str, str]]:
    """Return construct, adapter type and place of every endpoint of a template."""
    path = write_theatre(folder, adapter_type=adapter_type, endpoint=endpoint, **changes)
    template = product_template(parse_object(path.read_bytes()))
    return [(e.construct_id, e.adapter_type, e.place) for e in endpoints(template)]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    write_module(tmp_path)
    (tmp_path / "constructs.toml").write_text(REGISTRY)
    registry = ConstructRegistry.load(tmp_path / "constructs.toml")
    headers = {"Authorization": "OWN_TOKEN"}
    return Places(find=registry.find_registered, folder=tmp_path, headers_env=headers)


def at(places: Places, adapter_type: str, place: str) -> RegisteredConstruct | RemoteConstruct:
    endpoint = Endpoint(construct_id="doubler", adapter_type=adapter_type, place=place)
    return construct_at(endpoint, places)


# --- the endpoints of a template -------------------------------------------------------------


def test_the_construct_under_test_is_at_the_adapter_endpoint(tmp_path: Path) -> None:
    assert found(tmp_path, adapter_type="http", endpoint=URL) == [("doubler", "http", URL)]


def test_without_an_endpoint_a_construct_is_looked_up_by_its_id(tmp_path: Path) -> None:
    assert found(tmp_path, adapter_type="http") == [("doubler", "http", "construct:doubler")]


def test_without_a_programme_the_construct_under_test_is_called(tmp_path: Path) -> None:
    path = write_theatre(tmp_path, adapter_type="local")
    document = json.loads(path.read_bytes())
    del document["resolution_programme"]
    assert [e.construct_id for e in endpoints(product_template(document))] == ["doubler"]


def test_the_only_construct_is_meant_by_the_adapter_endpoint_whatever_is_under_test(
    tmp_path: Path,
) -> None:
    seen = found(
        tmp_path, adapter_type="http", endpoint=URL, config={"construct_under_test": "another"}
    )
    assert seen == [("doubler", "http", URL)]


def test_in_a_chain_each_construct_has_its_own_endpoint_or_is_looked_up(tmp_path: Path) -> None:
    seen = found(
        tmp_path,
        adapter_type="local",
        endpoint="construct:mine",
        config={
            "construct_under_test": "mint",
            "construct_chain": ["easel", "artisan", "mint"],
            "construct_endpoints": {"easel": {"adapter_type": "http", "endpoint": URL}},
        },
        resolution_programme=invoking("easel", "artisan", "mint"),
    )
    assert seen == [
        ("easel", "http", URL),
        ("artisan", "local", "construct:artisan"),
        ("mint", "local", "construct:mine"),
    ]


def test_an_own_endpoint_goes_before_the_adapter_endpoint(tmp_path: Path) -> None:
    own = {"doubler": {"adapter_type": "http", "endpoint": "construct:elsewhere"}}
    seen = found(
        tmp_path, adapter_type="local", endpoint="construct:x", config={"construct_endpoints": own}
    )
    assert seen == [("doubler", "http", "construct:elsewhere")]


def test_one_step_may_stand_for_a_whole_chain(tmp_path: Path) -> None:
    seen = found(
        tmp_path,
        adapter_type="local",
        config={"construct_chain": ["easel", "doubler"]},
        resolution_programme=invoking("doubler"),
    )
    assert sorted(seen) == [
        ("doubler", "local", "construct:doubler"),
        ("easel", "local", "construct:easel"),
    ]


def test_constructs_of_other_steps_are_not_reached(tmp_path: Path) -> None:
    steps = [
        *invoking("doubler"),
        {"step_id": "c", "type": "deterministic_computation", "construct_id": "nobody"},
    ]
    seen = found(tmp_path, adapter_type="local", resolution_programme=steps)
    assert seen == [("doubler", "local", "construct:doubler")]


# --- the construct at an endpoint ------------------------------------------------------------


def test_a_registered_program_is_local_or_serves_http(places: Places) -> None:
    local, served = at(places, "local", "construct:local"), at(places, "http", "construct:served")
    assert isinstance(local, RegisteredConstruct)
    assert isinstance(served, RegisteredConstruct)
    assert (local.start_seconds, served.start_seconds) == (None, 10.0)


def test_a_registered_service_keeps_its_own_headers(places: Places) -> None:
    assert at(places, "http", "construct:remote") == RemoteConstruct(
        construct_id="remote", url=URL, headers_env={"X-Key": "REMOTE_KEY"}
    )


def test_a_url_in_the_template_gets_the_headers_of_the_command_line(places: Places) -> None:
    assert at(places, "http", URL) == RemoteConstruct(
        construct_id="doubler", url=URL, headers_env={"Authorization": "OWN_TOKEN"}
    )


def test_an_argv_and_a_callable_are_taken_from_the_templates_folder(places: Places) -> None:
    argv = at(places, "local", '["{python}", "doubling.py"]')
    function = at(places, "python", "doubling:double")
    assert isinstance(argv, RegisteredConstruct)
    assert isinstance(function, RegisteredConstruct)
    assert argv.files == function.files == ("doubling.py",)


def test_a_module_may_have_the_name_of_the_prefix(places: Places) -> None:
    (places.folder / "construct.py").write_text("def double(x): return x\n")
    function = at(places, "python", "construct:double")
    assert isinstance(function, RegisteredConstruct)
    assert function.files == ("construct.py",)


NOT_REACHED: dict[str, tuple[str, str, type[Exception], str]] = {
    "remote as local": (
        "local",
        "construct:remote",
        ConstructTransportError,
        "got one with a url: its adapter is http",
    ),
    "registered as python": (
        "python",
        "construct:local",
        ConstructTransportError,
        "expected module:name for the python construct doubler, got construct:local",
    ),
    "unknown": (
        "http",
        "construct:nobody",
        UnknownConstructError,
        "The construct is not registered: 'nobody'",
    ),
    "a port in an argv": (
        "local",
        '["{python}", "doubling.py", "{port}"]',
        ConstructRegistryError,
        "register a program that serves HTTP",
    ),
    "mock": (
        "mock",
        "construct:local",
        ProgrammeError,
        "expected an adapter_type of a construct for doubler, got mock",
    ),
}


@pytest.mark.parametrize("case", NOT_REACHED)
def test_an_endpoint_that_stands_for_no_construct_of_its_type_is_refused(
    case: str, places: Places
) -> None:
    adapter_type, place, error, message = NOT_REACHED[case]
    with pytest.raises(error, match=message):
        at(places, adapter_type, place)


def test_headers_are_refused_where_no_url_stands_in_the_template() -> None:
    def of(adapter_type: str, place: str) -> Endpoint:
        return Endpoint(construct_id="doubler", adapter_type=adapter_type, place=place)

    headers = {"Authorization": "OWN_TOKEN"}
    registered = [of("http", "construct:remote"), of("local", '["python3", "x.py"]')]
    with pytest.raises(RequestHeadersError, match="to send Authorization to, got none"):
        refuse_unused_headers(registered, headers)
    refuse_unused_headers([*registered, of("http", URL)], headers)
    refuse_unused_headers(registered, {})


# --- the workspace ---------------------------------------------------------------------------


def test_allowed_hosts_come_from_the_environment() -> None:
    def allowed(text: str) -> tuple[str, ...]:
        return Workspace.from_environment({"ECHELON_OUTBOUND_ALLOW": text}).outbound_allow

    assert allowed(" 127.0.0.1:8000, staging.example ,,10.0.0.0/8") == (
        "127.0.0.1:8000",
        "staging.example",
        "10.0.0.0/8",
    )
    assert allowed("") == Workspace.from_environment({}).outbound_allow == ()


def test_no_variable_of_the_environment_shows_in_the_repr_of_a_workspace() -> None:
    workspace = Workspace.from_environment({"DOUBLER_TOKEN": "tok-5d5b8f2f7a11"})
    assert workspace.environment["DOUBLER_TOKEN"] == "tok-5d5b8f2f7a11"  # noqa: S105 - a test's
    assert "tok-5d5b8f2f7a11" not in repr(workspace)


def test_a_registered_construct_is_found_beside_the_template_before_anywhere_else(
    tmp_path: Path, places: Places
) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[constructs.cartograph]\nurl = "https://own.example/"\n')
    workspace = Workspace.from_environment({"ECHELON_CONSTRUCTS": str(own)})

    def find(name: str) -> RegisteredConstruct | RemoteConstruct:
        return workspace.find_registered(name, places.folder)

    assert find("remote").construct_id == "remote"
    assert find("cartograph") == RemoteConstruct(
        construct_id="cartograph", url="https://own.example/"
    )
    assert isinstance(find("observer"), RegisteredConstruct)
    with pytest.raises(ConstructTransportError, match="its adapter is http"):
        workspace.find_construct("cartograph", places.folder)
    with pytest.raises(UnknownConstructError, match=r"construct nobody in .*own\.toml.*; got none"):
        find("nobody")
