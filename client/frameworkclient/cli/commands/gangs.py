"""`gangs`, and `why` of one: gangs of other controllers, as their rosters show them."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from frameworkclient.cli.options import Format
from frameworkclient.cli.output import write, write_entries
from frameworkclient.cli.tables import gangs_table
from frameworkclient.cli.terminal import colours_for, say
from frameworkclient.errors import ClientError, translated
from frameworkclient.views.gangs import GangView
from frameworkclient.views.text import sanitize
from frameworkcontroller.api import names
from frameworkkube.http.pages import objects
from frameworkkube.paths import resource_path

if TYPE_CHECKING:
    from frameworkclient.aio import AsyncClient


async def list_gangs(client: AsyncClient, *, all_namespaces: bool, output: Format) -> None:
    """Write all gangs of other controllers."""
    found = await _gangs(client, all_namespaces=all_namespaces)
    if output in {Format.JSON, Format.YAML}:
        write_entries("gangs", [one.document for one in found], output)
        return
    if not found:
        say("No gangs of other controllers" + ("." if all_namespaces else f" in namespace {client.namespace}."))
        return
    write(gangs_table(found, datetime.now(UTC), colours_for(sys.stdout), with_namespace=all_namespaces))


async def why(client: AsyncClient, kind: str, name: str, output: Format) -> None:
    """Write why a gang of another controller does not start.

    Raises:
        ClientError: There is no roster of it.
    """
    gangs = [one for one in await _gangs(client) if (one.kind.lower(), one.owner.name) == (kind.lower(), name)]
    if not gangs:
        raise ClientError(
            f"there is no roster of {kind}/{name} in namespace {client.namespace}: it needs Pods with the label "
            f"{names.BARRIER_LABEL}: enabled, foreignGangs.enabled in the chart, and an owner that is there; "
            "the log of the controller says which request failed"
        )
    if output in {Format.JSON, Format.YAML}:
        write_entries("gangs", [one.document for one in gangs], output)
    else:
        write("".join(f"{sanitize(line)}\n" for one in gangs for line in one.explain()))


async def _gangs(client: AsyncClient, *, all_namespaces: bool = False) -> list[GangView]:
    path = resource_path("v1", "configmaps", namespace=None if all_namespaces else client.namespace)
    found = []
    with translated("list ConfigMaps"):
        async for document in objects(client.kube, path, names.GANG_LABEL):
            try:
                found.append(GangView(document))
            except ValueError:  # somebody else's, or half changed
                continue
    return sorted(found, key=lambda one: (one.owner.namespace, one.kind, one.owner.name, one.created))
