"""A witness: it cosigns a checkpoint that continues the last one it saw of a log, and no other.

Pure: a caller keeps the last checkpoints and swaps them atomically. Source: C2SP tlog-witness.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import NamedTuple

from theatre.transparency.errors import (
    MalformedError,
    ProofError,
    SignatureError,
    TransparencyError,
)
from theatre.transparency.merkle import verify_consistency
from theatre.transparency.notes import (
    Checkpoint,
    Note,
    Sign,
    SignatureLine,
    SignedCheckpoint,
    VerifierKey,
    cosign_text,
)
from theatre.transparency.proofs import WitnessRequest
from theatre.transparency.tiles import Tree

SIZE_TYPE = "text/x.tlog.size"


class WitnessRefusedError(TransparencyError):
    """A request that gets no cosignature; `status` and `size` are those of the answer.

    `evidence` is a checkpoint as the log signed it that nothing shows to continue the last one:
    worth keeping. It proves two trees where both have one size; else the proof may only be wrong,
    and a log's checkpoints are public, so anyone can send that.
    """

    code = "witness-refused"

    def __init__(
        self, message: str, status: HTTPStatus, *, size: int | None = None, evidence: bytes = b""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.size = size
        self.evidence = evidence


class Cosigned(NamedTuple):
    """What a witness answers, and the checkpoint with it: to be kept before the answer is sent."""

    answer: SignatureLine
    checkpoint: bytes


class Witness(NamedTuple):
    """The key of a witness and the logs that it follows, by their names."""

    key: VerifierKey
    sign: Sign
    logs: Mapping[str, Iterable[VerifierKey]]

    def origin_of(self, request: WitnessRequest) -> str:
        """Return which log a request is about; WitnessRefusedError (404) for an unknown one."""
        try:
            origin = Checkpoint.parse(Note.parse(request.checkpoint).text).origin
        except MalformedError as error:
            raise WitnessRefusedError(str(error), HTTPStatus.BAD_REQUEST) from error
        if origin not in self.logs:
            raise WitnessRefusedError(f"no log named {origin!r:.80}", HTTPStatus.NOT_FOUND)
        return origin

    def cosign(self, request: WitnessRequest, last: bytes | None, *, at: int) -> Cosigned:
        """Cosign the request's checkpoint; `last` is the one kept of this log, `at` in seconds.

        Raises WitnessRefusedError as the protocol asks.
        """
        keys = list(self.logs[self.origin_of(request)])
        try:
            signed = SignedCheckpoint.verify(request.checkpoint, keys)
        except SignatureError as error:
            raise WitnessRefusedError(str(error), HTTPStatus.FORBIDDEN) from error
        new, old = signed.checkpoint, self._last(last, signed.checkpoint.origin)
        if request.old > new.size:
            text = f"old size {request.old} beyond the checkpoint's {new.size}"
            raise WitnessRefusedError(text, HTTPStatus.BAD_REQUEST)
        if request.old != old.size:
            text = f"the last checkpoint seen has size {old.size}"
            raise WitnessRefusedError(text, HTTPStatus.CONFLICT, size=old.size)
        # Only what was verified is kept and shown: not what else the log was sent with it.
        ids = {(key.name, key.key_id) for key in keys}
        lines = [one for one in signed.note.signatures if (one.name, one.key_id) in ids]
        alone = bytes(Note(signed.note.text, tuple(lines)))
        if new.size == old.size and new.root != old.root:
            raise WitnessRefusedError(
                f"another tree of {new.size} entries than was seen: the log showed two",
                HTTPStatus.CONFLICT,
                size=old.size,
                evidence=alone,
            )
        try:
            verify_consistency(
                old=old.size,
                old_root=old.root,
                new=new.size,
                new_root=new.root,
                proof=request.hashes,
            )
        except ProofError as error:
            status = HTTPStatus.UNPROCESSABLE_ENTITY
            raise WitnessRefusedError(str(error), status, evidence=alone) from error
        line = cosign_text(signed.note.text, self.key, self.sign, at=at)
        return Cosigned(line, bytes(Note(signed.note.text, (*lines, line))))

    def _last(self, last: bytes | None, origin: str) -> Checkpoint:
        if last is None:
            return Checkpoint(origin, 0, Tree().root)
        return Checkpoint.parse(Note.parse(last).text)
