"""For authors of constructs: declare a callable, serve it on stdin and stdout or over HTTP.

It knows how an envelope looks and nothing of the engine that sends it, so a construct can be
served where no theatre is ever run. How it is used: `docs/constructs.md`.
"""

from theatre.construct_kit.http_server import serve_http
from theatre.construct_kit.served_construct import Refusal, construct
from theatre.construct_kit.stdio_server import serve_stdio

__all__ = ["Refusal", "construct", "serve_http", "serve_stdio"]
