"""A language model as evaluator of one debate: what it is asked, and what its answers come to.

All of it is pure: the model is outside, behind a `Judge` of the engine.
"""
