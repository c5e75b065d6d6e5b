"""A sealed bundle as one file, and the folder that comes out of it."""

import shutil
import tarfile
from pathlib import Path, PurePosixPath
from typing import IO

from theatre.engine.errors import BundleError


def unpack_bundle(packed: Path | IO[bytes], target: Path) -> None:
    """Put the files of a bundle's archive into `target`, without the folder they are in.

    Raises BundleError for anything but plain files inside a folder, and for what is no archive.
    """
    name, file = (packed, None) if isinstance(packed, Path) else (None, packed)
    try:
        with tarfile.open(name, fileobj=file) as archive:
            # Not `extractall`: Debian 12's Python 3.11.2 has no filters yet.
            for member in archive:
                parts = PurePosixPath(member.name).parts
                content = archive.extractfile(member) if member.isfile() else None
                if content is None or len(parts) < 2 or not {"..", "/"}.isdisjoint(parts):  # noqa: PLR2004 - the folder and a name in it
                    raise BundleError(f"expected the files of a bundle, got {member.name[:100]!a}")
                place = target.joinpath(*parts[1:])
                place.parent.mkdir(parents=True, exist_ok=True)
                with content, place.open("wb") as written:
                    shutil.copyfileobj(content, written)
    except (tarfile.TarError, EOFError) as error:
        raise BundleError(f"expected the archive of a bundle, got {error}") from error
