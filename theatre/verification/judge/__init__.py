"""A language model as judge of summaries: prompts, what is asked, and what its answers come to.

All of it is pure; `theatre.judging` reaches the model.
"""
