"""The Pod side of a gang: waits until every peer Task is there, then tells the application who and where its peers are.

Runs as an init container (waits, writes, exits) or as a native sidecar (the same, then keeps the files true).
It stands alone: nothing of the controller or the injector is imported, because every import is paid by every Pod.
"""

__version__ = "0.1.0"
