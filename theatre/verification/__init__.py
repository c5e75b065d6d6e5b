"""The community-oracle pipeline: a repository's own history as ground truth for its summaries.

A verification run is a replay theatre with a built-in template. What is here makes the records,
the questions, the template and the scorers; commitment, run, evidence and check are the engine's.
"""
