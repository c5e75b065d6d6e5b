"""`python -m theatre.construct_kit --stdio | --socket | --port N module:name`.

What `echelon construct serve` does, for a machine that has only this package: `python@1`
starts constructs with it.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from theatre.construct_kit.http_server import LOOPBACK, inherited_socket, serve_construct
from theatre.construct_kit.loading import load_construct
from theatre.construct_kit.served_construct import ServedConstruct
from theatre.construct_kit.stdio_server import answer_lines, claim_stdio
from theatre.engine.errors import TheatreError

_EXIT_FAILURE = 1


def main(arguments: Sequence[str]) -> int:
    """Serve until the end of input or a signal; return the exit code."""
    options = _parser().parse_args(arguments)

    def load() -> ServedConstruct:
        return load_construct(
            options.target, options.folder, construct_id=options.id, version=options.version
        )

    try:
        if options.stdio:
            # Claimed first: the module must not print between the answers while it is imported.
            wire = claim_stdio()
            answer_lines(load(), wire)
        elif options.socket:
            listener = inherited_socket()
            serve_construct(load(), listener=listener)
        else:
            serve_construct(load(), host=options.host, port=options.port)
    except TheatreError as error:
        sys.stderr.write(f"error ({error.code}): {error}\n")
        return _EXIT_FAILURE
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m theatre.construct_kit", description="Serve a callable as a construct."
    )
    transport = parser.add_mutually_exclusive_group(required=True)
    transport.add_argument(
        "--stdio", action="store_true", help="one envelope a line on stdin and stdout"
    )
    transport.add_argument(
        "--socket", action="store_true", help="HTTP on the socket that is descriptor 3"
    )
    transport.add_argument("--port", type=int, help="HTTP on this port; 0 takes a free one")
    parser.add_argument("--host", default=LOOPBACK, help="HTTP on this address (%(default)s)")
    parser.add_argument(
        "--folder", type=Path, default=Path(), help="where the module lies (working folder)"
    )
    parser.add_argument("--id", help="the construct's id, if not the declared one")
    parser.add_argument("--version", help="the construct's version, 7 to 64 hex digits")
    parser.add_argument("target", metavar="module:name", help="the callable")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
