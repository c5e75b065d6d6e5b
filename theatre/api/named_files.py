"""Files that the user names."""

from pathlib import Path

from theatre.engine.errors import NotFoundError


def read_file(path: Path, *, what: str) -> bytes:
    """Return the bytes of `path`; NotFoundError where no file of that name is."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(f"expected {what} at {path}, got no such file") from error
    except IsADirectoryError as error:
        raise NotFoundError(f"expected {what} at {path}, got a folder") from error
