"""The debate artefact: one format, many evaluators, and a control loop that only appends.

Source: the Unified Debate Output Schema 2.0 (docs/debate.md). Nothing here reads a clock, a
network or chance of its own: times, answers and seeds come from the caller.
"""
