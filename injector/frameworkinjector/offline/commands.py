"""The command for people, `audit`: ask, and print what was found.

`__main__` calls it with parsed arguments and two streams. It promises to return an exit code and to raise nothing that
a user can cause.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, TextIO

import msgspec

if TYPE_CHECKING:
    from frameworkinjector.offline.audit import Finding
    from frameworkkube.http.credentials import Endpoint

EXIT_FOUND: Final = 1
EXIT_ERROR: Final = 2


def audit(endpoint: Endpoint, namespace: str | None, *, as_json: bool, out: TextIO, err: TextIO) -> int:
    """Print the Pods that carry the label and lack the barrier.

    Returns:
        0 if there is none, 1 if there is one, 2 if the API server cannot be asked.
    """
    from frameworkkube.errors import KubeError

    try:
        found = asyncio.run(_findings(endpoint, namespace))
    except KubeError as error:
        print(f"frameworkinjector: {error}", file=err)
        return EXIT_ERROR
    if as_json:
        out.write(msgspec.json.encode([asdict(one) for one in found]).decode() + "\n")
    else:
        rows = [("NAMESPACE", "NAME", "PHASE", "CREATED"), *((f.namespace, f.name, f.phase, f.created) for f in found)]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        for row in rows if found else ():
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), file=out)
        print(f"{len(found)} Pods carry the label and lack the barrier", file=err)
    return EXIT_FOUND if found else 0


async def _findings(endpoint: Endpoint, namespace: str | None) -> list[Finding]:
    from frameworkinjector.offline.audit import findings
    from frameworkkube.http.client import KubeClient

    client = KubeClient(endpoint, user_agent="frameworkinjector-audit", max_connections=2)
    try:
        return [one async for one in findings(client, namespace)]
    finally:
        await client.close()
