"""Lets a program that follows objects of strangers decode whatever the API server stores."""

import resource
import sys
import threading
from typing import Final

DEEPEST: Final = 12_000
"""More than the API server lets objects nest (10,000, source: sigs.k8s.io/json)."""
STACK_BYTES: Final = 8 << 20


def read_deep_objects() -> None:
    """Let all that the API server stores be decoded at once: what is not is cut bracket by bracket, 200 times slower.

    The decoder stops at Python's limit of recursion, which is there for the stack: 10,000 levels take 4 MiB of it.
    """
    stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
    if stack == resource.RLIM_INFINITY or stack >= STACK_BYTES:
        # Threads have 2 MiB where the stack has no limit.
        threading.stack_size(STACK_BYTES)
        sys.setrecursionlimit(DEEPEST)
