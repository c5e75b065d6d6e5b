"""A language model as judge of summaries: prompts, what is asked, and what its answers come to.

All of it is pure but `anthropic_judge`, the one module that reaches a model.
"""
