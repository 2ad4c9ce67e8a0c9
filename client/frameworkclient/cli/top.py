"""`top`: what each Task uses, with the sum."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from frameworkclient.cli.options import Format
from frameworkclient.cli.output import as_list, table, write, write_document
from frameworkclient.cli.terminal import colours_for, say
from frameworkclient.text import counted
from frameworkclient.usage import TaskUsage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frameworkclient.aio import AsyncClient


async def top(client: AsyncClient, name: str, output: Format) -> None:
    """Write what the Tasks of a Framework use."""
    await client.get(name)
    found = await client.usage(name)
    if output in {Format.JSON, Format.YAML}:
        write_document(as_list([msgspec.to_builtins(one) for one in found]), output)
    elif output is Format.NAME:
        write("".join(f"pod/{one.pod}\n" for one in found))
    elif not found:
        say(f"Framework {name} has no Pods.")
    else:
        rows = [(one.task, one.node or "-", one.cpu_text, one.memory_text) for one in (*found, _sum(found))]
        write(table(("TASK", "NODE", "CPU", "MEMORY"), rows, colours_for(sys.stdout)))
        missing = sum(one.cpu is None for one in found)
        if missing:
            say(
                f"{counted(missing, 'Pod')} not measured yet: metrics-server needs up to a minute, and a Pod that runs."
            )


def _sum(found: Sequence[TaskUsage]) -> TaskUsage:
    known = [one for one in found if one.cpu is not None and one.memory is not None]
    if not known:
        return TaskUsage("all", "", "")
    return TaskUsage("all", "", "", sum(one.cpu or 0 for one in known), sum(one.memory or 0 for one in known))
