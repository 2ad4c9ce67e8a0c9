"""The status of a Framework: what is decided, how much of it is persisted, when it is written, and what is reported.

`conditions` says when each condition is true, `gang_ready` what it says of a gang that waits; `writer` says when.
"""
