"""The errors of `theatre.transparency`: one class for each decision that a caller can take."""

from theatre.engine.errors import TheatreError


class TransparencyError(TheatreError):
    """Base of what is wrong with a log, a proof, a signature or a policy."""

    code = "transparency-error"


class MalformedError(TransparencyError):
    """Bytes are not the note, proof, key, tile, entry or policy that they should be."""

    code = "transparency-malformed"


class ProofError(TransparencyError):
    """A Merkle proof does not lead to the root."""

    code = "proof-invalid"


class SignatureError(TransparencyError):
    """No signature by a key that is trusted for this, or a wrong one."""

    code = "signature-invalid"


class QuorumError(TransparencyError):
    """Fewer witnesses cosigned a checkpoint than the policy asks for."""

    code = "quorum-missing"


class LogForkError(TransparencyError):
    """Two trees of one log that do not continue each other, or a store without what was signed.

    Who meets it must not sign, and should keep both checkpoints as evidence.
    """

    code = "log-fork"


class LogBehindError(TransparencyError):
    """A log is restored behind its witness or a copy of it: what it signed later is missing here.

    Who goes on from here signs a second tree. The newer state has to be brought back first.
    """

    code = "log-behind"


class SigningKeyError(TransparencyError):
    """The private key of an issuer or a log is not there, is another one, or counts only later."""

    code = "signing-key"


class EntryError(TransparencyError):
    """An entry is not of the log's format, or too long for it."""

    code = "log-entry-invalid"


class DisclosureError(TransparencyError):
    """A file does not open the episodes of its certificate."""

    code = "disclosure-invalid"


class AuditError(TransparencyError):
    """An audit's request or coin is not of its form, or they do not belong together."""

    code = "audit-invalid"
