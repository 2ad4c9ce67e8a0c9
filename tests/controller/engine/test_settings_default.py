"""The configuration that is shipped: what failures of Pods mean, by the statuses that nodes really write.

The statuses are those of Kubernetes 1.36.3 with containerd 1.6 and runc 1.1, where a node wrote them; others are put
together from the messages of Kubernetes (1.22 to 1.36), of newer runc, of crun and of dockerd.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import yaml

from frameworkcontroller.api.codes import TypeName, is_reserved
from frameworkcontroller.api.pod import POD_DECODER, Pod
from frameworkcontroller.core.policies.classification import failed
from frameworkcontroller.engine.config.settings import FILE_NAME, Settings, default_config, read_settings
from tests.controller import reference
from tests.support.rows import each

MANIFEST = Path(__file__).parents[3] / "deploy" / "install.yaml"
CODES = read_settings(default_config()).core.codes

RUNC = "OCI runtime create failed: runc create failed: unable to start container process: "
CONTAINERD = "failed to create containerd task: failed to create shim task: " + RUNC
DOCKERD = "failed to create task for container: failed to create shim task: " + RUNC
DOCKERD_19 = "OCI runtime create failed: container_linux.go:349: starting container process caused "


def pod(reason: str = "", message: str = "", *ends: dict[str, Any], init: dict[str, Any] | None = None) -> Pod:
    """A Pod that failed; each end is the `terminated` state of a container."""

    def statuses(names: str, states: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
        return [{"name": f"{names}{place}", "state": {"terminated": state}} for place, state in enumerate(states)]

    status: dict[str, Any] = {"phase": "Failed", "containerStatuses": statuses("main", ends)}
    if init is not None:
        status["initContainerStatuses"] = statuses("init", (init,))
    status |= {key: text for key, text in (("reason", reason), ("message", message)) if text}
    metadata = {"name": "a-worker-0", "namespace": "n", "uid": "u", "resourceVersion": "1"}
    return POD_DECODER.decode(msgspec.json.encode({"metadata": metadata, "status": status}))


def rejected(reason: str, message: str) -> Pod:
    """A node refused to take it: it never had a container."""
    return pod(reason, f"Pod was rejected: {message}")


def end(code: int, reason: str = "Error", message: str = "") -> dict[str, Any]:
    return {"exitCode": code, "reason": reason} | ({"message": message} if message else {})


def exited(code: int, reason: str = "Error", message: str = "") -> Pod:
    return pod("", "", end(code, reason, message))


def start_error(message: str) -> Pod:
    return exited(128, "StartError", f"{message}: unknown")


def cannot_run(code: int, message: str) -> Pod:
    return exited(code, "ContainerCannotRun", message)


KILLED = end(137)
STATUSES: dict[int, dict[str, Pod]] = {  # by the code that they mean
    -1000: {  # evicted
        "evicted-memory": pod(
            "Evicted",
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 46Mi. Container main was "
            "using 9Gi, request is 0, has larger consumption of memory. ",
            KILLED,
        ),
        "evicted-empty-dir": pod("Evicted", 'Usage of EmptyDir volume "v" exceeds the limit "10Mi". ', KILLED),
        "evicted-ephemeral": pod(
            "Evicted", "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ", end(143)
        ),
        "evicted-at-admission": rejected("Evicted", "The node had condition: [DiskPressure]. "),
    },
    -1001: {  # node lost
        "node-lost": pod("NodeLost", "Node n-1 which was running pod a-worker-0 is unresponsive"),
        "node-shutdown": pod("Terminated", "Pod was terminated in response to imminent node shutdown.", end(143)),
        "node-shutdown-1.21": pod("Shutdown", "Node is shutting, evicting pods", end(143)),
        "node-shutdown-admission": rejected("NodeShutdown", "Pod was rejected as the node is shutting down."),
    },
    -1002: {  # not enough room
        "out-of-cpu": rejected(
            "OutOfcpu", "Node didn't have enough resource: cpu, requested: 500000, used: 0, capacity: 2000"
        ),
        "out-of-cpu-1.24": pod(
            "OutOfcpu", "Pod Node didn't have enough resource: cpu, requested: 1000, used: 1900, capacity: 2000"
        ),
        "out-of-memory": rejected(
            "OutOfmemory", "Node didn't have enough resource: memory, requested: 9663, used: 41943, capacity: 2527"
        ),
        "out-of-pods": rejected(
            "OutOfpods", "Node didn't have enough resource: pods, requested: 1, used: 110, capacity: 110"
        ),
        "out-of-gpu": rejected(
            "OutOfnvidia.com/gpu",
            "Node didn't have enough resource: nvidia.com/gpu, requested: 8, used: 4, capacity: 8",
        ),
        "host-port-taken": rejected(
            "NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
        ),
        "no-aligned-room": rejected("TopologyAffinityError", "Resources cannot be allocated with Topology locality"),
        "no-whole-cores": rejected(
            "SMTAlignmentError",
            "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 2, requested CPUs = 4, CPUs "
            "per core = 2",
        ),
        "volumes": rejected("VolumeAttachmentLimitExceeded", "Node has reached its volume attachment limit"),
    },
    # preempted, too long
    -1003: {"preempted": pod("Preempting", "Preempted in order to admit critical pod", KILLED)},
    -1004: {
        "deadline": pod("DeadlineExceeded", "Pod was active on the node longer than the specified deadline", KILLED)
    },
    -1005: {  # refused
        "affinity": rejected(
            "NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
        ),
        "selector-1.21": pod("MatchNodeSelector", "Pod Predicate MatchNodeSelector failed"),
        "taint": rejected(
            "TaintToleration", "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
        ),
        "sysctl": rejected("SysctlForbidden", 'forbidden sysctl: "kernel.msgmax" not allowlisted'),
        "apparmor": rejected("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"),
        "windows": rejected("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"),
        "half-cores": rejected(
            "SMTAlignmentError", "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"
        ),
        "feature": rejected("PodFeatureUnsupported", "Pod requires node features that are not available: X"),
        "no-shared-cores": rejected(
            "EmptyPodSharedPoolError", "pod-level exclusive resources leave no CPUs for the other containers"
        ),
    },
    -1006: {  # an unexpected error of the node
        "device-gone": rejected(
            "UnexpectedAdmissionError",
            "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1, "
            "Available: 0, which is unexpected",
        ),
        "device-unhealthy": rejected(
            "UnexpectedAdmissionError",
            "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, "
            "which is unexpected",
        ),
        "no-node-info": rejected("InvalidNodeInfo", "Kubelet cannot get node info."),
    },
    -1200: {  # memory
        "oom": exited(137, "OOMKilled"),
        "oom-of-a-child": exited(1, "OOMKilled", "worker died"),
        "oom-of-init": pod("", "", init=end(137, "OOMKilled")),
    },
    7: {"oom-survived": pod("", "", end(0, "OOMKilled"), end(7))},
    -1201: {  # creation
        "mount-containerd": start_error(
            CONTAINERD
            + 'error during container init: error mounting "/var/lib/kubelet/pods/7b/volumes/v" to rootfs at '
            '"/etc/passwd": mount /var/lib/v:/etc/passwd (via /proc/self/fd/6), flags: 0x5000: not a directory'
        ),
        "mount-dockerd": cannot_run(
            127,
            DOCKERD
            + 'error during container init: error mounting "/data" to rootfs at "/etc/hosts": permission denied: '
            "unknown: Are you trying to mount a directory onto a file (or vice-versa)?",
        ),
        "mount-dockerd-19": cannot_run(
            128,
            DOCKERD_19
            + r'"process_linux.go:449: container init caused \"rootfs_linux.go:58: mounting \\\"/data\\\" to '
            r'rootfs caused \\\"permission denied\\\"\"": unknown',
        ),
        "gpu-hook": start_error(
            CONTAINERD
            + "error during container init: error running prestart hook #0: exit status 1, stdout: , stderr: "
            "nvidia-container-cli: initialization error: nvml error: driver not loaded"
        ),
        "gpu-hook-old": start_error(CONTAINERD + "error during container init: error running hook #0: exit status 1"),
        "seccomp": start_error(CONTAINERD + "error during container init: unable to init seccomp: invalid argument"),
    },
    -1202: {  # permission denied
        "denied-containerd": start_error(CONTAINERD + 'exec: "/etc/passwd": permission denied'),
        "denied-folder": start_error(CONTAINERD + 'exec: "/etc": is a directory'),
        "denied-newer-runc": start_error(
            CONTAINERD + 'error during container init: exec: "/run.sh": permission denied'
        ),
        "denied-working-folder": start_error(
            CONTAINERD + 'chdir to cwd ("/root") set in config.json failed: permission denied'
        ),
        "denied-dockerd": cannot_run(126, DOCKERD + 'exec: "/run.sh": permission denied: unknown'),
        "denied-dockerd-19": cannot_run(126, DOCKERD_19 + r'"exec: \"/run.sh\": permission denied": unknown'),
        "denied-late": exited(255, "Error", "exec /mnt/run.sh: permission denied\n"),
    },
    -1203: {  # not found
        "missing-containerd": start_error(CONTAINERD + 'exec: "nosuchprogram": executable file not found in $PATH'),
        "missing-path": start_error(
            CONTAINERD + 'exec: "/no/such/program": stat /no/such/program: no such file or directory'
        ),
        "missing-below-a-file": start_error(CONTAINERD + 'exec: "/etc/passwd/x": stat /etc/passwd/x: not a directory'),
        "missing-crun": start_error(
            "failed to create containerd task: failed to create shim task: OCI runtime create failed: crun: executable "
            "file `nosuch` not found in $PATH: No such file or directory"
        ),
        "missing-dockerd": cannot_run(127, DOCKERD + 'exec: "nosuch": executable file not found in $PATH: unknown'),
        "missing-dockerd-19": cannot_run(
            127, DOCKERD_19 + r'"exec: \"nosuch\": executable file not found in $PATH": unknown'
        ),
        "missing-interpreter": exited(1, "Error", "exec /s/run: no such file or directory\n"),
        "missing-interpreter-old": exited(
            1, "Error", "standard_init_linux.go:228: exec user process caused: no such file or directory\n"
        ),
        "missing-interpreter-oldest": exited(
            1, "Error", 'standard_init_linux.go:190: exec user process caused "no such file or directory"\n'
        ),
    },
    -1204: {  # other starts
        "start-other": start_error(CONTAINERD + "error during container init: mkdir /etc/passwd: not a directory"),
        "start-other-dockerd": cannot_run(128, "driver failed programming external connectivity on endpoint"),
        "start-other-processor": exited(1, "Error", "exec /s/garbage: exec format error\n"),
    },
    137: {  # lost with its node's memory of it
        "unknown": exited(
            137, "ContainerStatusUnknown", "The container could not be located when the pod was terminated"
        ),
    },
    # what users' own programs say is theirs
    3: {"user-exec-message": exited(3, "Error", "Traceback:\nexec /x: no such file or directory\nin line 3")},
    127: {"shell-not-found": exited(127, "Error", "sh: 2: exec: /tmp/x: not found\n")},
    1: {"user-reason": pod("Terminated", "by hand", end(1))},
    210: {"contract-first": pod("Evicted", "", end(210))},
}
ROWS = {name: (code, seen) for code, group in STATUSES.items() for name, seen in group.items()}
PHRASES = reference.shipped_codes()
SIGNALS = [code for code in PHRASES if code > 0]
"""Exit codes that are completion codes of their own."""


@each("code, seen", ROWS.values(), ids=ROWS)
def test_a_failure_is_recognised_and_told_with_the_whole_message_of_the_container(code: int, seen: Pod) -> None:
    found = failed(seen, CODES)
    assert found.code == code, found.diagnostics
    if code in PHRASES:
        assert (found.phrase, found.type.name, found.type.attributes) == (PHRASES[code][0], "Failed", PHRASES[code][1])
    _, is_matched, parts = found.diagnostics.partition(": PodPattern matched: ")
    ends = {
        status.name: status.state.terminated
        for status in (*seen.status.init_container_statuses, *seen.status.container_statuses)
    }
    for shown in msgspec.json.decode(parts).get("containers", ()) if is_matched else ():
        end = ends[shown["name"]]
        assert end is not None
        assert shown.get("message", "") == end.message


@each("code", range(1, 256))
def test_an_exit_code_alone_means_a_signal_or_itself(code: int) -> None:
    found = failed(pod("", "", end(0, "Completed"), end(code, message="some words")), CODES)
    assert found.code == code
    if code in SIGNALS:
        assert (found.phrase, found.type.attributes) == PHRASES[code]
    else:
        assert found.phrase in {
            "ContainerUnrecognizedFailed",
            "ContainerTransientFailed",
            "ContainerTransientConflictFailed",
            "ContainerPermanentFailed",
        }


def test_the_codes_are_those_of_the_reference_and_everything_else_has_its_default() -> None:
    settings = read_settings(default_config())
    assert msgspec.structs.replace(settings, pod_failure_spec=()) == Settings()
    shipped = [spec.info() for spec in settings.pod_failure_spec]
    assert {info.code: (info.phrase, info.type.attributes) for info in shipped} == PHRASES
    assert {info.type.name for info in shipped} == {TypeName.FAILED}
    assert not any(is_reserved(info.code) for info in shipped)


def test_every_pattern_matches_some_status() -> None:
    """A pattern that matches no status of the table is untested."""
    statuses = [seen for _, seen in ROWS.values()] + [exited(code) for code in SIGNALS]
    unmet = []
    for info in [spec.info() for spec in read_settings(default_config()).pod_failure_spec]:
        for pattern in info.patterns:
            alone = replace(info, patterns=(pattern,))
            if not any(failed(seen, [alone]).code == info.code for seen in statuses):
                unmet.append((info.code, pattern))
    assert unmet == []


def test_the_comments_show_the_defaults() -> None:
    """Uncommented, the documented keys are all that there are, are valid and change nothing."""
    keys = [line[1:] for line in default_config().splitlines() if re.match(r"#(\w|  )", line)]
    elsewhere = ("kubeApiServerAddress", "kubeConfigFilePath")
    text = "\n".join(line for line in keys if not line.startswith(elsewhere))
    read = read_settings(text)
    assert read.kube_client_qps == 80
    assert msgspec.structs.replace(read, kube_client_qps=None) == Settings()
    shown = yaml.safe_load(text) | dict.fromkeys((*elsewhere, "podFailureSpec"))
    every = msgspec.to_builtins(Settings())
    assert keys_of(shown) == keys_of(every)


def keys_of(group: dict[str, Any]) -> dict[str, Any]:
    """The keys of a mapping and of the mappings in it."""
    return {key: keys_of(value) if isinstance(value, dict) else None for key, value in group.items()}


# --- the manifest ----------------------------------------------------------------------------------------------------


def test_the_manifest_holds_the_file_as_it_is() -> None:
    (document,) = [one for one in yaml.safe_load_all(MANIFEST.read_text()) if one["kind"] == "ConfigMap"]
    assert document["metadata"]["name"] == "frameworkcontroller-config"
    assert document["data"] == {FILE_NAME: default_config()}
