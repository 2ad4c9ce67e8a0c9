"""The Pod side of a gang: waits until every peer Task is ready, then writes for the application who its peers are.

Runs as an init container (waits, writes, exits) or as a native sidecar (the same, then keeps the files true).
It imports nothing of the controller or the injector, because every Pod pays for every import.

`settings` are read, a `source` says who is there, the `gate` opens, and `files` are written, by `presets`. `log` writes
the lines and leaves the last one as termination message; `errors` has the exit codes.
"""

__version__ = "0.3.0"
