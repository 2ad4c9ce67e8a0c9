"""Schedulers of others as processes, Volcano and scheduler-plugins, with the configurations of their charts."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from localcluster import Cluster
from localcluster.errors import LocalClusterError
from localcluster.processes.ports import free_port
from testkit import go_modules
from testkit.frameworks import apply_all
from testkit.waiting import eventually, patience

PLUGINS_SCHEDULER: Final = "scheduler-plugins-scheduler"
"""The name that the chart of scheduler-plugins gives its scheduler."""


@dataclass
class Scheduler:
    """A scheduler on one cluster, with all permissions; `install`, then `start`."""

    cluster: Cluster
    folder: Path
    """Of its configuration and log."""
    program: str
    """`volcano` or `scheduler-plugins`."""
    definitions: str
    """The folder or the file of its definitions, in its module."""
    process: subprocess.Popen[bytes] | None = None

    def install(self) -> None:
        """Apply its definitions."""
        found = self.module / self.definitions
        files = sorted(found.glob("*.yaml")) if found.is_dir() else [found]
        documents = [one for file in files for one in yaml.safe_load_all(file.read_text()) if one]
        apply_all(self.cluster, documents)
        self.cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")

    def start(self) -> None:
        """Start it; it is ready when it places something."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [str(self.cluster.binary(self.program)), *self._options()]
        with (self.folder / f"{self.program}.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)

    def stop(self) -> None:
        """Stop the process, if there is one; one that had ended failed."""
        if self.process is not None:
            assert self.process.poll() is None, (self.folder / f"{self.program}.log").read_text()[-3000:]
            self.process.terminate()
            self.process.wait(patience(30))

    @property
    def module(self) -> Path:
        """The files of its module."""
        return go_modules.folder_of(*go_modules.of_program(self.program))

    def _options(self) -> list[str]:
        raise NotImplementedError


class Volcano(Scheduler):
    """Volcano's scheduler, which may preempt."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        super().__init__(cluster, folder, "volcano", "installer/helm/chart/volcano/crd/bases")

    def start(self) -> None:
        """Start it, and open its queue, as Volcano's controllers do."""
        super().start()

        def opens() -> None:
            patch = ("--subresource=status", "--type=merge", '--patch={"status":{"state":"Open"}}')
            try:
                self.cluster.kubectl("patch", "queues.scheduling.volcano.sh", "default", *patch)
            except LocalClusterError as error:
                raise AssertionError(str(error)) from error

        eventually(opens, 30)

    def _options(self) -> list[str]:
        settings = yaml.safe_load(
            (self.module / "installer/helm/chart/volcano/config/volcano-scheduler.conf").read_text()
        )
        # It reads it again whenever something in the folder changes.
        file = self.folder / "settings" / "volcano.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(yaml.safe_dump(settings | {"actions": "enqueue, allocate, preempt, backfill"}))
        return [
            f"--kubeconfig={self.cluster.kubeconfig}",
            f"--scheduler-conf={file}",
            "--leader-elect=false",
            "--cache-dumper=false",
            f"--listen-address=127.0.0.1:{free_port()}",
        ]


class SchedulerPlugins(Scheduler):
    """kube-scheduler with the plugin Coscheduling, as a second scheduler."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        super().__init__(cluster, folder, "scheduler-plugins", "manifests/coscheduling/crd.yaml")

    def _options(self) -> list[str]:
        plugins = {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "PrioritySort"}]}
        settings = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(self.cluster.kubeconfig)},
            "profiles": [
                {
                    "schedulerName": PLUGINS_SCHEDULER,
                    "plugins": {"multiPoint": plugins},
                    "pluginConfig": [{"name": "Coscheduling", "args": {"permitWaitingTimeSeconds": 10}}],
                }
            ],
        }
        file = self.folder / "scheduler-plugins.json"
        file.write_text(json.dumps(settings))
        # When Pods go, it looks again at a gang without a place only after this time, 5 min by default, and every 30 s.
        again = "--pod-max-in-unschedulable-pods-duration=1s"
        return [f"--config={file}", f"--secure-port={free_port()}", "--bind-address=127.0.0.1", again]
