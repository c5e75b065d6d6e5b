"""Language models as judges, whatever they judge: how one is asked, read and reached.

All of it is pure but `anthropic_judge`, the one module that reaches a model.
"""
