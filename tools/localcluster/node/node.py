"""A real Kubernetes node on this machine: kubelet, containerd, kube-proxy and CoreDNS in namespaces of their own.

Beside its own processes it changes one setting of the machine: how many inotify instances a user may have.

It differs from a production node in four things. Pods reach each other and the API server and nothing else. CoreDNS is
a process of the node behind the usual Service, not a Deployment. No Pod is evicted for lack of disk space. QoS cgroups
are off, because they need all controllers of the machine's cgroups.
"""

import contextlib
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import yaml

from localcluster.client import ApiStatusError, RawClient
from localcluster.context import Context
from localcluster.node import containerd, namespaces, network
from localcluster.node.namespaces import filled
from localcluster.packages import require
from localcluster.processes.health import check_health
from localcluster.programs.catalogue import minor_of
from localcluster.progress import task

NAME = "node"
COMPONENTS = ("node", "containerd", "coredns", "kube-proxy", "kubelet")
_COMMANDS = (
    "containerd", "ctr", "containerd-shim-runc-v2", "runc", "bridge", "host-local", "loopback", "nft", "conntrack",
    "ip", "nsenter", "unshare", "mount", "catatonit",
)  # fmt: skip
_INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
_INOTIFY_INSTANCES = 1024
"""A node has about 20, and a few for each log that somebody follows. Linux allows 128 to all processes of a user."""
_NEVER = "1970-01-01T00:00:00Z"


def start(context: Context) -> None:
    """Start the components of the node that do not run, and return when it is Ready."""
    require(_COMMANDS)
    if int(_INOTIFY.read_text()) < _INOTIFY_INSTANCES:
        _INOTIFY.write_text(str(_INOTIFY_INSTANCES))
    for name in ("kubelet", "kube-proxy", "coredns"):
        context.binary(name)
    with task("node: namespaces, network, containerd"):
        init_pid = namespaces.start(context)
        network.connect(context, init_pid)
        containerd.start(context, init_pid)
    with task("node: kubelet, kube-proxy, CoreDNS"), ThreadPoolExecutor() as pool:
        for started in [pool.submit(starter, context, init_pid) for starter in (_start_kubelet, _start_dns)]:
            started.result()
        # It waits for the addresses of its node for 30 s; from 1.37 on it exits when they come later.
        _start_proxy(context, init_pid)


def stop(context: Context) -> None:
    """End all processes of the node and remove its interface and cgroups, as far as they exist."""
    namespaces.stop(context)
    for name in reversed(COMPONENTS):
        context.processes.stop(name, grace_seconds=0)
    network.disconnect(context.interface)


def _start_kubelet(context: Context, init_pid: int) -> None:
    address = context.network.node_address
    serving = context.pki.server("kubelet", hosts=[NAME, address])
    text = filled(
        "kubelet.yaml",
        NODE=address,
        CA=context.pki.ca.certificate,
        CERTIFICATE=serving.certificate,
        KEY=serving.key,
        DNS_SERVICE=context.network.dns_service,
    )
    config = yaml.safe_load(text)
    if minor_of(context.version) >= 31:
        config["failCgroupV1"] = False
    file = context.state / NAME / "kubelet.json"
    file.write_text(json.dumps(config, indent=1))
    kubeconfig = context.component_kubeconfig(
        "kubelet", user=f"system:node:{NAME}", group="system:nodes", server=_server(context)
    )
    with contextlib.closing(RawClient(context)) as client:
        context.start(
            "kubelet",
            f"--config={file}",
            f"--kubeconfig={kubeconfig}",
            f"--hostname-override={NAME}",
            f"--node-ip={address}",
            "--root-dir=/var/lib/kubelet",
            ready=lambda: _check_ready(context, client),
            prefix=namespaces.inside(init_pid),
        )


def _start_proxy(context: Context, init_pid: int) -> None:
    address = context.network.node_address
    kubeconfig = context.component_kubeconfig("kube-proxy", user="system:kube-proxy", server=_server(context))
    arguments = [
        f"--kubeconfig={kubeconfig}",
        "--proxy-mode=nftables",
        f"--hostname-override={NAME}",
        f"--bind-address={address}",
        f"--healthz-bind-address={address}:10256",
        "--metrics-bind-address=127.0.0.1:10249",
        # The limits of connection tracking belong to the whole machine.
        "--conntrack-max-per-core=0",
    ]
    if minor_of(context.version) < 31:
        arguments.append("--feature-gates=NFTablesProxyMode=true")
    if not Path("/proc/sys/net/bridge").exists():
        # Without br_netfilter an answer within the bridge bypasses the rules: send it through the node.
        arguments.append("--masquerade-all")
    context.start(
        "kube-proxy",
        *arguments,
        ready=lambda: check_health(f"http://{address}:10256/livez"),
        prefix=namespaces.inside(init_pid),
    )


def _start_dns(context: Context, init_pid: int) -> None:
    kubeconfig = context.component_kubeconfig("coredns", user="system:coredns", server=_server(context))
    address = context.network.node_address
    with contextlib.closing(RawClient(context)) as client:
        for entry in json.loads(filled("dns.json", NODE=address, DNS_SERVICE=context.network.dns_service)):
            client.apply(entry["path"], entry["body"])
    file = context.state / NAME / "Corefile"
    file.write_text(filled("Corefile", NODE=address, KUBECONFIG=kubeconfig))
    context.start(
        "coredns",
        *("-conf", str(file)),
        ready=lambda: check_health(f"http://{address}:8181/ready"),
        prefix=namespaces.inside(init_pid),
    )


def _check_ready(context: Context, client: RawClient) -> bool | str:
    """Return True if the kubelet serves and its node is Ready and without taints, else a sentence that says why not."""
    answer = check_health(f"https://{context.network.node_address}:10250/healthz")
    # The kubelet answers 401 to requests without credentials, which shows that it serves.
    if answer != "HTTP 401":
        return answer
    try:
        seen = client.get(f"/api/v1/nodes/{NAME}")
    except ApiStatusError as error:
        if error.status != 404:
            raise
        return "it has not registered its node"
    conditions = {condition["type"]: condition for condition in seen["status"].get("conditions", [])}
    ready = conditions.get("Ready", {"status": "Unknown", "message": "its node has no condition Ready yet"})
    # The API server still shows a node as Ready for a while after its processes were killed.
    started = context.processes.pid_file("kubelet").stat().st_mtime - 1
    current = datetime.fromisoformat(ready.get("lastHeartbeatTime", _NEVER)).timestamp() >= started
    taints = seen["spec"].get("taints")
    return (ready["status"] == "True" and current and not taints) or f"{ready['message']}; taints: {taints}"


def _server(context: Context) -> str:
    return f"https://{context.network.bridge_address}:{context.api_port}"
