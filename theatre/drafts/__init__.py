"""Drafts: what authors write, compiled into the full template that is committed.

`compilation.compile_draft` is pure; `pinning.resolve_draft` adds what files decide. How a draft is
written: docs/drafts.md. Nothing is imported here: every command knows the errors.
"""
