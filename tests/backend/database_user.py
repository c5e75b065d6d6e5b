"""A process that uses the embedded server: run by tests, told what to do on stdin.

`database_user.py HOME` starts the server and says `ready`; then a line for each line it reads.
"""

import sys
from pathlib import Path

import psycopg

from backend.database.embedded import EmbeddedServer
from backend.database.sessions import OWNER
from backend.errors import EmbeddedServerError


def answer(server: EmbeddedServer, line: str) -> str:
    if line == "close":
        server.close()
        return "closed"
    with psycopg.connect(server.address(OWNER)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS remarks (remark text PRIMARY KEY)")
        if line == "all":
            rows = connection.execute("SELECT remark FROM remarks ORDER BY remark").fetchall()
            return " ".join(row[0] for row in rows)
        if line == "began":
            return str(connection.execute("SELECT pg_postmaster_start_time()").fetchone())
        connection.execute("INSERT INTO remarks VALUES (%s)", [line])
    return f"kept {line}"


def main() -> None:
    server = EmbeddedServer(Path(sys.argv[1]))
    try:
        server.start()
    except EmbeddedServerError as error:
        print(f"refused {error}".replace("\n", " "), flush=True)  # noqa: T201 - it speaks on stdout
        return
    print("ready", flush=True)  # noqa: T201 - it speaks on stdout
    for line in sys.stdin:
        print(answer(server, line.strip()), flush=True)  # noqa: T201 - it speaks on stdout
    server.close()


if __name__ == "__main__":
    main()
