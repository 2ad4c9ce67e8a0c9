"""The page of what the demo has run: the archive, on this machine, which sees what the user of the kubeconfig sees."""

import json
import os
import secrets
import sys

from frameworkdemo.cluster import Cluster
from localcluster.processes.health import check_health
from localcluster.processes.ports import free_port
from localcluster.processes.supervisor import Supervisor

NAME = "page"
START_SECONDS = 60.0


def start(cluster: Cluster) -> str:
    """Start it, unless it runs, and return an address that signs in; what it keeps is in the folder of the cluster.

    Raises:
        LocalClusterError: It could not be started.
    """
    folder = cluster.state
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    supervisor, known = Supervisor(folder), folder / f"{NAME}.json"
    if supervisor.running(NAME) is None or not known.exists():
        known.touch(0o600)
        known.write_text(json.dumps([free_port(), free_port(), secrets.token_urlsafe(24)]))
    port, internal_port, key = json.loads(known.read_text())
    # It follows one cluster, whatever the current context of the user is later.
    kubeconfig = folder / f"{NAME}.kubeconfig"
    kubeconfig.touch(0o600)
    kubeconfig.write_text(cluster.kubectl("config", "view", "--minify", "--flatten"))
    command = [sys.executable, "-m", "frameworkhistory", "--local", f"--kubeconfig={kubeconfig}"]
    command += [f"--database=sqlite:///{folder}/history.db", f"--logs=file://{folder}/logs"]
    command += [f"--port={port}", f"--internal-port={internal_port}"]
    env, health = {**os.environ, "FRAMEWORKHISTORY_KEY": key}, f"http://127.0.0.1:{internal_port}/readyz"
    supervisor.start(NAME, command, env=env, ready=lambda: check_health(health), timeout_seconds=START_SECONDS)
    return f"http://127.0.0.1:{port}/signin?key={key}"


def stop(cluster: Cluster) -> None:
    """Stop it; what it has kept stays."""
    Supervisor(cluster.state).stop(NAME)
