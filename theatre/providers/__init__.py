"""Models behind the HTTP interfaces of their makers, for constructs and judges alike.

`client` is the one module that knows their SDKs.
"""
