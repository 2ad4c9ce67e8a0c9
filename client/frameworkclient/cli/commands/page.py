"""`ui`: the page of the archive, through the API server."""

import os
import re
import subprocess
import sys
import webbrowser
from typing import Final

from frameworkclient.aio import AsyncClient
from frameworkclient.cli.commands.doctor import LEASE, name_of
from frameworkclient.cli.output import write
from frameworkclient.cli.run import Cluster
from frameworkclient.errors import ClientError, NotFoundError, translated
from frameworkkube.paths import resource_path

PORT: Final = "page"
"""Of the Service."""
_FORWARDS: Final = re.compile(r"Forwarding from (127\.0\.0\.1:[0-9]+) ")


def show(cluster: Cluster, system_namespace: str, release: str) -> None:
    """Write the address of the page, open it where there is a browser, and stay until kubectl ends or Ctrl-C.

    Raises:
        ClientError: There is no such Service, no kubectl, or kubectl has ended by itself.
    """
    name = name_of(release).replace(LEASE, "frameworkhistory")
    service = f"{system_namespace}/{name}"

    async def check(client: AsyncClient) -> None:
        try:
            with translated(f"find Service {service}"):
                await client.kube.get(resource_path("v1", "services", namespace=system_namespace, name=name))
        except NotFoundError as error:
            hint = "install the archive (history.enabled of the chart), or name --system-namespace and --release"
            raise NotFoundError(f"there is no Service {service}: {hint}", error.code) from error

    cluster.run(check)
    flags = {"namespace": system_namespace, "context": cluster.context, "kubeconfig": cluster.kubeconfig}
    given = [f"--{flag}={value}" for flag, value in (flags | {"as": cluster.as_user}).items() if value]
    given += [f"--as-group={group}" for group in cluster.as_groups or ()]
    command = ["kubectl", "port-forward", *given, f"service/{name}", f":{PORT}"]
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    except FileNotFoundError as error:
        raise ClientError("ui needs kubectl, and there is none in PATH: install it") from error
    with process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if (found := _FORWARDS.match(line)) is not None:
                    _opened(f"http://{found[1]}")
        finally:
            process.terminate()
    raise ClientError(f"kubectl port-forward to Service {service} has ended with exit code {process.returncode}")


def _opened(url: str) -> None:
    write(f"{url} shows what has run; Ctrl-C ends it\n")
    sys.stdout.flush()
    has_display = sys.platform in {"darwin", "win32"} or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if sys.stdout.isatty() and has_display:
        webbrowser.open(url)
