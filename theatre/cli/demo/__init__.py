"""`echelon demo`: a client of the service, that starts one, asks it by HTTP and stops it.

Nothing here imports the service (docs/design/service.md, "The demo is a client"): what the demo
shows, anybody can do who has its address.
"""
