"""The transparency log: its tree and tiles, signed notes, proofs, policies, keys, witnesses.

Nothing in here opens a file or a connection: a caller lends bytes, a signer and the time.
Source: docs/contract/trust.md.
"""
