"""The control plane: etcd, kube-apiserver, kube-controller-manager, and kube-scheduler where there are nodes.

It differs from a production cluster in four things. etcd does not wait for the disk, because its data is thrown away.
The controller manager may send a thousand requests a second, because its default of 20 makes garbage collection slow.
Where there are no nodes, the controllers that delete Pods of unknown nodes are off. What places groups of Pods together
is on where Kubernetes has it.
"""

import contextlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from localcluster import kubeconfigs
from localcluster.client import RawClient
from localcluster.context import Context, Depth
from localcluster.processes.health import check_health
from localcluster.programs.catalogue import minor_of
from localcluster.progress import task

_ISSUER = "https://kubernetes.default.svc.cluster.local"
# With Go's defaults a small API server spends a quarter of its CPU on garbage collection. The environment has the last
# word: a large one at its limit spends half of it.
_SERVER_HEAP = {"GOGC": "400", "GOMEMLIMIT": "2GiB"}
FIRST_WITH_GANGS = 37
"""The minor version of Kubernetes from which kube-scheduler knows `scheduling.k8s.io/v1beta1`."""
# They act when a Pod's node is silent or unknown; a test that plays the kubelet has no Node objects.
_NODE_CONTROLLERS = ("node-lifecycle-controller", "taint-eviction-controller", "pod-garbage-collector-controller")


def _gangs(context: Context, *more: str) -> list[str]:
    """Return the flags of a component by which Kubernetes places groups of Pods together, where it can; it is beta."""
    gates = "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
    return [gates, *more] if minor_of(context.version) >= FIRST_WITH_GANGS else []


def start(context: Context) -> None:
    """Start the components that do not run, and return when all are ready."""
    starters = {"kube-controller-manager": _start_controllers}
    if context.depth is not Depth.CONTROL_PLANE:
        starters["kube-scheduler"] = _start_scheduler
    for name in ("etcd", "kube-apiserver", *starters):
        context.binary(name)
    with task("etcd"):
        _start_etcd(context)
    with task("kube-apiserver"):
        _start_server(context)
    kubeconfigs.write(context.kubeconfig, context.server, context.ca_file, {"token": context.admin_token})
    with task(" and ".join(starters)), ThreadPoolExecutor() as pool:
        for started in [pool.submit(starter, context) for starter in starters.values()]:
            started.result()


def _start_etcd(context: Context) -> None:
    client = f"http://127.0.0.1:{context.port('etcd')}"
    peer = f"http://127.0.0.1:{context.port('etcd-peer')}"
    context.start(
        "etcd",
        "--name=local",
        f"--data-dir={context.state / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=local={peer}",
        "--unsafe-no-fsync",
        f"--quota-backend-bytes={8 << 30}",
        "--log-level=warn",
        ready=lambda: check_health(f"{client}/health"),
    )


def _start_server(context: Context) -> None:
    pki, network = context.pki, context.network
    tokens = context.state / "tokens.csv"
    if not tokens.exists():
        tokens.touch(0o600)
        tokens.write_text(f'{context.admin_token},admin,admin,"system:masters"\n')
    hosts = ["localhost", "127.0.0.1", network.bridge_address, network.kubernetes_service]
    names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]
    serving = pki.server("kube-apiserver", hosts=[*names, *hosts])
    to_kubelet = pki.client("kube-apiserver-kubelet", user="kube-apiserver", group="system:masters")
    real_node = context.depth is Depth.NODE
    arguments = [
        f"--etcd-servers=http://127.0.0.1:{context.port('etcd')}",
        f"--secure-port={context.api_port}",
        f"--bind-address={'0.0.0.0' if real_node else '127.0.0.1'}",
        f"--advertise-address={network.bridge_address}",
        # Without a real node no process can use the `kubernetes` Service, and no interface has its address.
        f"--endpoint-reconciler-type={'lease' if real_node else 'none'}",
        f"--service-cluster-ip-range={network.service_subnet}",
        f"--client-ca-file={pki.ca.certificate}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        f"--token-auth-file={tokens}",
        f"--service-account-issuer={_ISSUER}",
        f"--service-account-key-file={pki.service_account.certificate}",
        f"--service-account-signing-key-file={pki.service_account.key}",
        f"--kubelet-client-certificate={to_kubelet.certificate}",
        f"--kubelet-client-key={to_kubelet.key}",
        "--kubelet-preferred-address-types=InternalIP",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--profiling=false",
        *_gangs(context, "--runtime-config=scheduling.k8s.io/v1beta1=true"),
    ]
    with contextlib.closing(RawClient(context)) as client:
        context.start("kube-apiserver", *arguments, ready=client.check_ready, env={**_SERVER_HEAP, **os.environ})


def _start_controllers(context: Context) -> None:
    config = context.component_kubeconfig("kube-controller-manager", user="system:kube-controller-manager")
    off = _NODE_CONTROLLERS if context.depth is Depth.CONTROL_PLANE else ()
    _start_serving(
        context,
        "kube-controller-manager",
        config,
        f"--kubeconfig={config}",
        f"--controllers={','.join(['*', *(f'-{name}' for name in off)])}",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={context.pki.service_account.key}",
        f"--root-ca-file={context.pki.ca.certificate}",
        f"--cluster-signing-cert-file={context.pki.ca.certificate}",
        f"--cluster-signing-key-file={context.pki.ca.key}",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        "--leader-elect=false",
        "--profiling=false",
        *_gangs(context),
    )


def _start_scheduler(context: Context) -> None:
    kubeconfig = context.component_kubeconfig("kube-scheduler", user="system:kube-scheduler")
    # The client's rate can be set in the configuration file only; the default of 50 a second is slow for thousands of
    # Pods.
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 2000, "burst": 4000},
        "leaderElection": {"leaderElect": False},
    }
    file = context.state / "kube-scheduler.json"
    file.write_text(json.dumps(config, indent=1))
    _start_serving(context, "kube-scheduler", kubeconfig, f"--config={file}", *_gangs(context))


def _start_serving(context: Context, name: str, kubeconfig: Path, *arguments: str) -> None:
    """Start a component that serves its health over TLS, to users whom the API server authenticates."""
    port = context.port(name)
    context.start(
        name,
        *arguments,
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        ready=lambda: check_health(f"https://127.0.0.1:{port}/healthz"),
    )
