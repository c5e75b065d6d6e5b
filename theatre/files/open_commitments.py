"""The commitments of an issuer that nothing has closed yet: a small file each, by theatre.

One is written before its commitment is logged, and removed when the entry that closes it and the
proofs of that are durable: what a crash left is here, and is finished by the next command. What
closes a commitment is decided once, and is in its file before it is logged. Who writes one holds
the lock of its theatre, if that is still there.
Source: docs/contract/trust.md §4.
"""

from pathlib import Path
from typing import NamedTuple, cast

from theatre.engine.canonical_json import JsonObject, canonical_line, parse_object
from theatre.engine.errors import ParseError
from theatre.files.durable import replace_durably, sync_folder
from theatre.transparency.errors import MalformedError


class OpenCommitment(NamedTuple):
    """A commitment, as the log's entry, and the folder of its theatre.

    `closing` is the entry that closes it, once that is decided: then no other one can.
    """

    theatre_id: str
    folder: Path
    commitment: bytes
    closing: bytes | None = None


class OpenCommitments(NamedTuple):
    """The files of a folder, named by theatre."""

    folder: Path

    def theatre_ids(self) -> list[str]:
        """Return the theatres whose commitments are open."""
        if not self.folder.is_dir():
            return []
        return sorted(one.name for one in self.folder.iterdir() if not one.name.startswith("."))

    def find(self, theatre_id: str) -> OpenCommitment | None:
        """Return the open commitment of a theatre; MalformedError where the file is none."""
        try:
            document = parse_object((self.folder / theatre_id).read_bytes())
            closing = cast("str | None", document["closing"])
            return OpenCommitment(
                theatre_id=theatre_id,
                folder=Path(cast("str", document["folder"])),
                commitment=cast("str", document["commitment"]).encode(),
                closing=None if closing is None else closing.encode(),
            )
        except FileNotFoundError:
            return None
        except (ParseError, KeyError, TypeError, AttributeError) as error:
            raise MalformedError(
                f"expected an open commitment in {self.folder / theatre_id}, got another file"
            ) from error

    def keep(self, one: OpenCommitment) -> None:
        """Make it durable."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        closing = None if one.closing is None else one.closing.decode()
        document: JsonObject = {
            "folder": str(one.folder),
            "commitment": one.commitment.decode(),
            "closing": closing,
        }
        replace_durably(self.folder / one.theatre_id, canonical_line(document))

    def remove(self, theatre_id: str) -> None:
        """Forget it, durably: it is closed, or was never logged."""
        (self.folder / theatre_id).unlink(missing_ok=True)
        sync_folder(self.folder)
