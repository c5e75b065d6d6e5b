"""Pseudo-Axion: a gridworld in which agents may act only through an auditing kernel.

Source: docs/requirements.md, "E The pseudo-axion audit". Artefacts of this package are hashed in
the profile `axion8` (`theatre.axion.common.canonical_json`), which is not RFC 8785.
"""
