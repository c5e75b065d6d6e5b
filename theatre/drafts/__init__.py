"""Drafts: what authors write, compiled into the full template that is committed.

`compilation` is pure; `pinning` adds what files decide. How a draft is written: docs/drafts.md.
Nothing is imported here: the table of exit codes reads `errors` at every start.
"""
