"""`echelon construct …`: serve a callable, list what is registered, print versions."""

import asyncio
from pathlib import Path
from typing import Any, cast

import click

from theatre.api.commitments import find_closed_folders
from theatre.api.connections import find_tools
from theatre.api.template_files import read_template, refuse_broken, validate_template
from theatre.api.workspace import Workspace, utc_now
from theatre.cli.certificate_report import describe_isolation
from theatre.cli.exits import NamedPath, json_option, print_document
from theatre.cli.tables import print_table
from theatre.construct_kit.http_server import LOOPBACK, serve_construct
from theatre.construct_kit.loading import load_construct
from theatre.construct_kit.stdio_server import answer_lines, claim_stdio
from theatre.engine.canonical_json import JsonValue
from theatre.engine.templates import PLAIN_ADAPTERS, product_template
from theatre.oracles.construct_files import file_hash, listed_files
from theatre.oracles.construct_registry import (
    ConstructRegistry,
    RegisteredConstruct,
    RemoteConstruct,
    source_of,
)
from theatre.oracles.endpoints import construct_at, endpoints, version_at
from theatre.oracles.in_process import construct_from_callable
from theatre.oracles.isolation.canary import probe_isolation

_MAX_PORT = 65535

folder_option = click.option(
    "--folder",
    type=NamedPath(file_okay=False),
    default=Path(),
    help="Where the module lies, if not in the working folder.",
)


@click.group(no_args_is_help=True)
def construct() -> None:
    """Serve a callable as a construct, list what is registered, and print versions."""


@construct.command(short_help="Serve a Python callable as a construct.")
@click.argument("target", metavar="MODULE:NAME")
@click.option("--stdio", is_flag=True, help="One envelope a line on stdin and stdout.")
@click.option("--port", type=click.IntRange(0, _MAX_PORT), help="HTTP; 0 takes a free port.")
@click.option("--host", default=LOOPBACK, show_default=True, help="The address for HTTP.")
@folder_option
@click.option("--id", "construct_id", help="The construct's id, if not the declared one.")
@click.option("--version", metavar="HEX", help="Its version, if not its content hash.")
def serve(
    target: str,
    *,
    stdio: bool,
    port: int | None,
    host: str,
    folder: Path,
    construct_id: str | None,
    version: str | None,
) -> None:
    """Serve the callable MODULE:NAME as a construct until stdin ends or SIGTERM comes.

    It takes `input_data` and returns `output_data`, both dicts.
    """
    if stdio == (port is not None):
        raise click.UsageError("expected either --stdio or --port")
    # Claimed first: the module must not print between the answers while it is imported.
    wire = claim_stdio() if stdio else None
    served = load_construct(target, folder, construct_id=construct_id, version=version)
    if wire is not None:
        answer_lines(served, wire)
    elif port is not None:
        serve_construct(served, host=host, port=port)


@construct.command(short_help="Print the version of a construct, for its pin.")
@click.argument("subject", metavar="ID|MODULE:NAME|TEMPLATE")
@folder_option
@json_option
def version(subject: str, folder: Path, *, as_json: bool) -> None:
    """Print the version of a construct, which is what its pin must be.

    With --json also what it binds: argv as written, and the SHA-256 of each file.

    ID is looked up in the `constructs.toml` of the folder, yours, and the shipped one. Of a
    TEMPLATE (a .json file) it prints the version of each construct without a wrapper, and the hash
    of each tool of an MCP server, which it starts or connects for that.
    """
    if subject.endswith(".json"):
        rows = asyncio.run(_find_versions(Path(subject), Workspace.from_environment()))
        if as_json:
            print_document({"constructs": cast("list[JsonValue]", rows)})
            return
        for row in rows:
            click.echo(f"{row['construct_version']}  {row['construct']}")
            for name, digest in row["tools"].items():
                click.echo(f"{digest}  {row['construct']}, tool_sha256 of {name}")
        return
    if ":" in subject:
        found = construct_from_callable(subject, subject, folder)
    else:
        found = Workspace.from_environment().find_construct(subject, folder)
    construct_version = source_of(found).version()
    if as_json:
        hashes = {
            name: file_hash(found.folder / name) for name in listed_files(found.folder, found.files)
        }
        bound = {"argv": list(found.argv), "files": hashes}
        document = {"construct": subject, "construct_version": construct_version}
        print_document({**document, "folder": str(found.folder), **bound})
    else:
        click.echo(construct_version)


async def _find_versions(path: Path, workspace: Workspace) -> list[dict[str, Any]]:
    document = read_template(path)
    # The pins are what is asked for here; all else must be right.
    others = [one for one in validate_template(document).errors if one.rule != "version-declared"]
    refuse_broken(others)
    template = product_template(document)
    places = workspace.places(path.parent)
    found: list[dict[str, Any]] = []
    for endpoint in endpoints(template):
        if endpoint.adapter_type not in PLAIN_ADAPTERS:
            continue
        is_server = endpoint.adapter_type == "mcp"
        tools = await find_tools(endpoint, places, workspace) if is_server else {}
        version = version_at(endpoint, construct_at(endpoint, places))
        row = {"construct": endpoint.construct_id, "tools": tools}
        found.append({**row, "construct_version": version})
    return found


@construct.command(short_help="Show how often a construct was committed, and what came of it.")
@click.argument("construct_id", metavar="ID")
@click.option("--version", metavar="HEX", help="Only this version, or those that begin so.")
@json_option
def record(construct_id: str, version: str | None, *, as_json: bool) -> None:
    """Show what your log has of ID: each run that began, and how it was closed.

    `echelon monitor` shows it of anybody's log.
    """
    # A construct that is served starts without what a log needs.
    from theatre.api.issuer_log import issuer_home, read_record  # noqa: PLC0415
    from theatre.transparency.record import LogRecord  # noqa: PLC0415

    home = issuer_home()
    trust, now = home.read(), utc_now()
    found = LogRecord() if trust is None else asyncio.run(read_record(home, trust))
    versions = dict.fromkeys(run.construct_version for run in found.of(construct_id))
    counts = {
        one: found.counts(construct_id, one, now=now)
        for one in versions
        if one.startswith(version or "")
    }
    if as_json:
        origin = None if trust is None else trust.log.name
        rows: list[JsonValue] = [
            {"construct_version": one, **count.as_document()} for one, count in counts.items()
        ]
        print_document({"construct_id": construct_id, "origin": origin, "versions": rows})
        return
    table = [(one[:12], str(count.commitments), count.describe()) for one, count in counts.items()]
    print_table(("version", "runs", "came to"), table)


@construct.command(name="list", short_help="List what is registered, and what each is kept from.")
@folder_option
@json_option
def list_constructs(folder: Path, *, as_json: bool) -> None:
    """List the registered constructs, and what each would be kept from here: tried now.

    Those of the `constructs.toml` of the folder, yours, and the shipped one; the first counts.
    """
    workspace = Workspace.from_environment()
    found: dict[str, RegisteredConstruct | RemoteConstruct] = {}
    for path in reversed(workspace.registries(folder)):
        found |= ConstructRegistry.load(path).constructs
    closed = find_closed_folders(workspace, folder)
    here = {name: one for name, one in found.items() if isinstance(one, RegisteredConstruct)}
    tried = {
        reach: probe_isolation(closed, reach) for reach in {one.reach for one in here.values()}
    }
    on_stdin = {name for name, one in here.items() if one.start_seconds is None}
    rows: list[dict[str, Any]] = [
        {
            "construct": name,
            "adapter_type": "local" if name in on_stdin else "http",
            "isolation": tried[here[name].reach].as_document() if name in here else None,
        }
        for name in sorted(found)
    ]
    if as_json:
        print_document({"constructs": rows})
        return
    for row in rows:
        isolation = row["isolation"]
        described = (
            "a service elsewhere: judged by the address that answers"
            if isolation is None
            else describe_isolation(isolation)
        )
        click.echo(f"{row['construct']:30}  {row['adapter_type']:5}  {described}")
