"""Reading what agents wrote: sections, reasons, evidence, polarity, causal rungs.

Everything here is a structural proxy: it sees form and words, never whether a claim is true.
White space and the order of sections change nothing.
"""
