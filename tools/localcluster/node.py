"""A real Kubernetes node on this machine: kubelet, containerd, kube-proxy and CoreDNS in namespaces of their own.

Beside its own processes it changes one setting of the machine: how many inotify instances a user may have.

It differs from a production node in four things. Pods reach each other and the API server and nothing else. CoreDNS is
a process of the node behind the usual Service, not a Deployment. No Pod is evicted for lack of disk space. QoS cgroups
are off, because they need all controllers of the machine's cgroups.
"""

from __future__ import annotations

import contextlib
import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localcluster import containerd, namespaces, network
from localcluster.client import ApiStatusError, RawClient
from localcluster.errors import LocalClusterError
from localcluster.health import check_health
from localcluster.packages import require
from localcluster.progress import task

if TYPE_CHECKING:
    from collections.abc import Callable

    from localcluster.context import Context

NAME = "node"
COMPONENTS = ("node", "containerd", "coredns", "kube-proxy", "kubelet")
_COMMANDS = (
    "containerd", "ctr", "containerd-shim-runc-v2", "runc", "bridge", "host-local", "loopback", "nft", "conntrack",
    "ip", "nsenter", "unshare", "mount", "catatonit",
)  # fmt: skip
_MANIFESTS = Path(__file__).parent / "manifests"
_SECONDS = 180.0
_INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
_INOTIFY_INSTANCES = 1024
"""A node has about 20, and a few for each log that somebody follows. Linux allows 128 to all processes of a user."""
_NEVER = "1970-01-01T00:00:00Z"


def start(context: Context) -> None:
    """Start the components of the node that do not run, and return when it is Ready.

    Raises:
        SetupError: A tool is missing and cannot be installed, or the kernel refused something.
        StartError: A component did not become ready.
        BinaryError: A program could not be found, downloaded or built.
    """
    require(_COMMANDS, context.progress)
    if int(_INOTIFY.read_text()) < _INOTIFY_INSTANCES:
        _INOTIFY.write_text(str(_INOTIFY_INSTANCES))
    for name in ("kubelet", "kube-proxy", "coredns"):
        context.binary(name)
    with task(context.progress, "node: namespaces, network, containerd"):
        init_pid = namespaces.start(context)
        network.connect(context, init_pid)
        containerd.start(context, init_pid)
    with (
        task(context.progress, "node: kubelet, kube-proxy, CoreDNS"),
        ThreadPoolExecutor() as pool,
        contextlib.closing(RawClient(context)) as client,
    ):
        starters: tuple[Callable[[Context, int], None], ...] = (_start_kubelet, _start_dns)
        for started in [pool.submit(starter, context, init_pid) for starter in starters]:
            started.result()
        _wait_until_ready(context, client)
        # It waits for the addresses of its node for 30 s; from 1.37 on it exits when they come later.
        _start_proxy(context, init_pid)


def stop(context: Context) -> None:
    """End all processes of the node and remove its interface and cgroups, as far as they exist.

    Raises:
        LocalClusterError: Something could not be removed.
    """
    namespaces.stop(context)
    for name in reversed(COMPONENTS):
        context.processes.stop(name, grace_seconds=0)
    network.disconnect(context.interface)


def _start_kubelet(context: Context, init_pid: int) -> None:
    address = context.network.node_address
    serving = context.pki.server("kubelet", hosts=[NAME, address])
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(context.pki.ca.certificate)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
        "containerRuntimeEndpoint": containerd.ENDPOINT,
        # Debian's containerd 1.6 does not tell which it uses. 1.37 is the last kubelet that accepts that.
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "clusterDNS": [context.network.dns_service],
        "clusterDomain": "cluster.local",
        # Pods cannot reach the machine's name servers.
        "resolvConf": "",
        "failSwapOn": False,
        "evictionHard": {},
        "imageGCHighThresholdPercent": 100,
        "serializeImagePulls": False,
        "healthzBindAddress": "127.0.0.1",
        # kube-proxy in nftables mode does not need the kubelet's iptables chains.
        "makeIPTablesUtilChains": False,
        "registryPullQPS": 0,
        "eventRecordQPS": 0,
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
    }
    if _minor(context.version) >= 31:
        config["failCgroupV1"] = False
    file = context.state / NAME / "kubelet.json"
    file.write_text(json.dumps(config, indent=1))
    kubeconfig = context.component_kubeconfig(
        "kubelet", user=f"system:node:{NAME}", group="system:nodes", server=_server(context)
    )
    command = [
        str(context.binary("kubelet")),
        f"--config={file}",
        f"--kubeconfig={kubeconfig}",
        f"--hostname-override={NAME}",
        f"--node-ip={address}",
        "--root-dir=/var/lib/kubelet",
    ]
    _start(context, init_pid, "kubelet", command, ready=lambda: _listens(f"https://{address}:10250/healthz"))


def _start_proxy(context: Context, init_pid: int) -> None:
    address = context.network.node_address
    kubeconfig = context.component_kubeconfig("kube-proxy", user="system:kube-proxy", server=_server(context))
    command = [
        str(context.binary("kube-proxy")),
        f"--kubeconfig={kubeconfig}",
        "--proxy-mode=nftables",
        f"--hostname-override={NAME}",
        f"--bind-address={address}",
        f"--healthz-bind-address={address}:10256",
        "--metrics-bind-address=127.0.0.1:10249",
        # The limits of connection tracking belong to the whole machine.
        "--conntrack-max-per-core=0",
    ]
    if _minor(context.version) < 31:
        command.append("--feature-gates=NFTablesProxyMode=true")
    if not Path("/proc/sys/net/bridge").exists():
        # Without br_netfilter an answer within the bridge bypasses the rules: send it through the node.
        command.append("--masquerade-all")
    _start(context, init_pid, "kube-proxy", command, ready=lambda: check_health(f"http://{address}:10256/livez"))


def _start_dns(context: Context, init_pid: int) -> None:
    kubeconfig = context.component_kubeconfig("coredns", user="system:coredns", server=_server(context))
    values = {
        "@NODE@": context.network.node_address,
        "@DNS_SERVICE@": context.network.dns_service,
        "@KUBECONFIG@": str(kubeconfig),
    }
    with contextlib.closing(RawClient(context)) as client:
        for entry in json.loads(_filled("dns.json", values)):
            client.apply(entry["path"], entry["body"])
    file = context.state / NAME / "Corefile"
    file.write_text(_filled("Corefile", values))
    command = [str(context.binary("coredns")), "-conf", str(file)]
    _start(
        context,
        init_pid,
        "coredns",
        command,
        ready=lambda: check_health(f"http://{context.network.node_address}:8181/ready"),
    )


def _start(context: Context, init_pid: int, name: str, command: list[str], ready: Callable[[], bool | str]) -> None:
    context.processes.start(name, [*namespaces.inside(init_pid), *command], ready=ready, timeout_seconds=_SECONDS)


def _wait_until_ready(context: Context, client: RawClient) -> None:
    deadline = time.monotonic() + _SECONDS
    why = "it has not registered itself"
    # The API server still shows a node as Ready for a while after its processes were killed.
    started = context.processes.pid_file("kubelet").stat().st_mtime - 1
    while time.monotonic() < deadline:
        try:
            seen = client.get(f"/api/v1/nodes/{NAME}")
        except ApiStatusError as error:
            if error.status != 404:
                raise
        else:
            conditions = {condition["type"]: condition for condition in seen["status"].get("conditions", [])}
            ready = conditions.get("Ready", {"status": "Unknown", "message": "it has no condition Ready yet"})
            current = datetime.fromisoformat(ready.get("lastHeartbeatTime", _NEVER)).timestamp() >= started
            if ready["status"] == "True" and current and not seen["spec"].get("taints"):
                return
            why = f"{ready['message']}; taints: {seen['spec'].get('taints', [])}"
        time.sleep(0.1)
    raise LocalClusterError(f"the node was not Ready after {_SECONDS:g} s: {why}\n{context.processes.tail('kubelet')}")


def _listens(url: str) -> bool | str:
    answer = check_health(url)
    # The kubelet answers 401 to requests without credentials, which shows that it serves.
    return answer == "HTTP 401" or answer


def _server(context: Context) -> str:
    """Return the API server's URL for processes of the node."""
    return f"https://{context.network.bridge_address}:{context.port('kube-apiserver')}"


def _filled(manifest: str, values: dict[str, str]) -> str:
    text = (_MANIFESTS / manifest).read_text()
    for key, value in values.items():
        text = text.replace(key, value)
    return text


def _minor(version: str) -> int:
    return int(version.split(".")[1])
