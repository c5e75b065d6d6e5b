"""Serving `module:name`, for the two commands that do: this package's own and `echelon`'s."""

from __future__ import annotations

from pathlib import Path

from theatre.construct_kit.http_server import inherited_socket, serve_construct
from theatre.construct_kit.loading import load_callable
from theatre.construct_kit.served_construct import make_servable
from theatre.construct_kit.stdio_server import answer_lines, claim_stdio


def serve_target_on_stdio(
    target: str, folder: Path, *, construct_id: str | None, version: str | None
) -> None:
    """Serve a callable below `folder` on stdin and stdout, which its module cannot print on.

    Raises as `load_callable` and `served`.
    """
    wire = claim_stdio()
    function = load_callable(target, folder)
    construct = make_servable(function, construct_id=construct_id, version=version, target=target)
    answer_lines(construct, wire)


def serve_target_over_http(
    target: str,
    folder: Path,
    *,
    construct_id: str | None,
    version: str | None,
    host: str,
    port: int,
) -> None:
    """Serve a callable below `folder` over HTTP.

    Raises as `load_callable`, `served` and `serve_http`.
    """
    function = load_callable(target, folder)
    construct = make_servable(function, construct_id=construct_id, version=version, target=target)
    serve_construct(construct, host=host, port=port)


def serve_target_on_socket(
    target: str, folder: Path, *, construct_id: str | None, version: str | None
) -> None:
    """Serve a callable below `folder` over HTTP, on the socket that this process was handed.

    Raises as `load_callable`, `served` and `inherited_socket`.
    """
    listener = inherited_socket()
    function = load_callable(target, folder)
    construct = make_servable(function, construct_id=construct_id, version=version, target=target)
    serve_construct(construct, listener=listener)
