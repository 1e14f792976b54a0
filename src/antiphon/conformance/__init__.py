"""A black-box checker of any Responses server: what it says on the wire against the rules of the protocol.

`order` and what it stands on (`pattern`, `grammar`, `streamed`) do no I/O: events in, violations out.
`checks/` holds one file per group; `run` runs them against a `Target` and makes a `Report`.
"""
