"""The commands of docs/quickstart.md after the installation print what the page says."""

import sys
from pathlib import Path

import pytest

from frameworkrelease.chart import REPOSITORY
from localcluster import Cluster
from localcluster.programs import binaries
from tests.support.console import check, run, steps
from tests.support.pages import commands_of

pytestmark = [
    pytest.mark.node,
    pytest.mark.requires_kubernetes("1.36", "the gang of the page restarts in its Pods"),
]
PAGE = REPOSITORY / "docs" / "quickstart.md"


def test_every_command_of_the_quickstart_prints_what_it_says(
    cluster: Cluster, installed: None, namespace: str, kubeconfig: Path, tmp_path: Path
) -> None:
    # The tests of the page of installations type this one.
    install, *_ = commands_of("docs/operate/install.md", "With helm")
    assert install.strip() in PAGE.read_text()
    kubectl = binaries.find("kubectl", kubernetes=cluster.version)
    path = f"{Path(sys.executable).parent}:{kubectl.parent}:/usr/bin:/bin"
    environ = {"KUBECONFIG": str(kubeconfig), "PATH": path}
    # A controller may miss the state of a Pod that has the exit code.
    names = {namespace: "default", "has ended; its exit code was not seen": "exited with 130"}
    commands = []
    for documented in steps(PAGE, tmp_path):
        # The images are on the node, by the names that the chart gives them.
        step = documented._replace(command=documented.command.replace("registry.example/", "docker.io/"))
        commands.append(step.command.split()[1])
        if " kill " in step.command:
            run(step, tmp_path, environ)  # the container may end before the command in it, and end it, too
        else:
            check(step, tmp_path, environ, names)
    assert {"run", "logs", "exec", "describe", "why", "scale", "delete"} <= set(commands)
