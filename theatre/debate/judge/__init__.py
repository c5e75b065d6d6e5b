"""A language model as evaluator of one debate: what it is asked, and what its answers come to.

All of it is pure: whoever is asked stands outside, as a `Judge` of the engine.
"""
