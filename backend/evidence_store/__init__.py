"""The evidence store: objects under the SHA-256 of their bytes, in a folder or in a bucket.

An object is written once, durable before anything names it, and verified whenever it is read. No
write depends on a condition: S3-compatible servers differ in whether they honour one.
"""

from backend.evidence_store.names import ObjectKind, sha256_at, sha256_of
from backend.evidence_store.store import EvidenceStore

__all__ = ["EvidenceStore", "ObjectKind", "sha256_at", "sha256_of"]
