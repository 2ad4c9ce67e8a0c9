"""Whether this replica is ready: the one place that decides it.

Each part that readiness depends on (certificates, the call to itself, capabilities) reports successes and failures to a
`PartStatus`; `run` passes all of them to `not_ready`, whose answer `/readyz` shows.
Source: docs/reference/injector.md, section 2.
"""

import math
from collections.abc import Mapping


class PartStatus:
    """The last outcome of one part, and whether that part lets the replica be ready.

    Args:
        problem: Why the part is not in order before its first outcome, as a clause. Later the attribute is the last
            failure; None after a success.
        tolerated: Failures in a row after a success that leave the part in order.
    """

    def __init__(self, problem: str, *, tolerated: float = math.inf) -> None:
        self.problem: str | None = problem
        self._tolerated = tolerated
        self._failures: int | None = None
        """Those in a row after the last success, if there was one."""

    def succeeded(self) -> None:
        """Note a success."""
        self.problem = None
        self._failures = 0

    def failed(self, problem: str) -> bool:
        """Note a failure, and report whether it differs from the previous outcome and so is worth a log line."""
        is_new = problem != self.problem
        self.problem = problem
        if self._failures is not None:
            self._failures += 1
        return is_new

    @property
    def unready(self) -> str | None:
        """Why the part keeps the replica from being ready; None if it does not."""
        in_order = self._failures is not None and self._failures <= self._tolerated
        return None if in_order else self.problem


def not_ready(parts: Mapping[str, PartStatus], *, stopping: bool) -> list[str]:
    """Return why this replica should get no calls, one clause each; empty if it is ready.

    A served certificate and what the cluster has said of its capabilities stay valid while the API server cannot be
    reached, so their parts tolerate failures: a replica does not become unready because it cannot renew what it has.
    """
    problems = ["stopping"] if stopping else []
    return problems + [f"{name}: {part.unready}" for name, part in parts.items() if part.unready is not None]
