"""Pages for people: values in, HTML out.

A page is a pure function of the values that it is given. Nothing here reads a clock, a database or
a request; nothing asks another host. It needs the extra `pages` (Jinja2).
"""
