"""A black-box checker of any Responses server: compares what it sends with the rules of the protocol.

It is independent of our server: it imports protocol names, the HTTP client and errors, and nothing else.
`order` and the modules below it (`pattern`, `grammar`, `items`) do no I/O: events in, violations out.
`checks/` has one file per group; `run` runs the checks against a `Target` and makes a `Report`.
"""
