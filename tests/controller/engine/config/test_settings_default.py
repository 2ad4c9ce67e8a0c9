"""The configuration that is shipped: what failures of Pods mean, by the statuses that nodes really write.

The statuses are those of Kubernetes 1.36.3 with containerd 1.6 and runc 1.1, where a node wrote them; others are put
together from the messages of Kubernetes (1.22 to 1.36), of newer runc, of crun and of dockerd.
"""

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
from tests.controller.engine.config.test_settings import leaves
from tests.support.rows import each

MANIFEST = Path(__file__).parents[4] / "deploy" / "install.yaml"
CODES = read_settings(default_config()).core.codes

# How messages of programs that start containers begin.
SHIM = "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
RUNC = "runc create failed: unable to start container process: "
CONTAINERD = SHIM + RUNC
DOCKERD = "failed to create task for container: failed to create shim task: OCI runtime create failed: " + RUNC
DOCKERD_19 = "OCI runtime create failed: container_linux.go:349: starting container process caused "
IN_INIT = "error during container init: "
RUNC_1_0 = "standard_init_linux.go"


def pod(reason: str = "", message: str = "", *ends: dict[str, Any], init: dict[str, Any] | None = None) -> Pod:
    """A Pod that failed; each end is the `terminated` state of a container."""
    status = {
        "phase": "Failed",
        "reason": reason,
        "message": message,
        "initContainerStatuses": [] if init is None else [{"name": "init", "state": {"terminated": init}}],
        "containerStatuses": [{"name": f"main{n}", "state": {"terminated": one}} for n, one in enumerate(ends)],
    }
    metadata = {"name": "a-worker-0", "namespace": "n", "uid": "u", "resourceVersion": "1"}
    return POD_DECODER.decode(msgspec.json.encode({"metadata": metadata, "status": status}))


def rejected(reason: str, message: str) -> Pod:
    """A node refused to take it: it never had a container."""
    return pod(reason, f"Pod was rejected: {message}")


def no_room(resource: str, numbers: str) -> Pod:
    return rejected(f"OutOf{resource}", f"Node didn't have enough resource: {resource}, {numbers}")


def unfit(predicate: str, why: str) -> Pod:
    return rejected(predicate, f"Predicate {predicate} failed: node(s) {why}")


def unaligned(why: str) -> Pod:
    return rejected("SMTAlignmentError", f"SMT Alignment Error: {why}")


def end(code: int, reason: str = "Error", message: str = "") -> dict[str, Any]:
    return {"exitCode": code, "reason": reason, "message": message}


def exited(code: int, reason: str = "Error", message: str = "") -> Pod:
    return pod("", "", end(code, reason, message))


def start_error(message: str) -> Pod:
    return exited(128, "StartError", f"{CONTAINERD}{message}: unknown")


def cannot_run(code: int, message: str) -> Pod:
    return exited(code, "ContainerCannotRun", message)


STATUSES: dict[int, list[Pod]] = {  # by the code that they mean
    -1000: [  # evicted
        pod("Evicted", 'Usage of EmptyDir volume "v" exceeds the limit "10Mi". ', end(137)),
        rejected("Evicted", "The node had condition: [DiskPressure]. "),
    ],
    -1001: [  # the node is lost, or shuts down (as 1.21 said it, and at admission)
        pod("NodeLost", "Node n-1 which was running pod a-worker-0 is unresponsive"),
        pod("Terminated", "Pod was terminated in response to imminent node shutdown.", end(143)),
        pod("Shutdown", "Node is shutting, evicting pods", end(143)),
        rejected("NodeShutdown", "Pod was rejected as the node is shutting down."),
    ],
    -1002: [  # not enough room
        no_room("cpu", "requested: 500000, used: 0, capacity: 2000"),
        no_room("nvidia.com/gpu", "requested: 8, used: 4, capacity: 8"),
        unfit("NodePorts", "didn't have free ports for the requested pod ports"),
        rejected("TopologyAffinityError", "Resources cannot be allocated with Topology locality"),
        unaligned("not enough free physical CPUs: available physical CPUs = 2, requested CPUs = 4, CPUs per core = 2"),
        rejected("VolumeAttachmentLimitExceeded", "Node has reached its volume attachment limit"),
    ],
    # preempted, too long
    -1003: [pod("Preempting", "Preempted in order to admit critical pod", end(137))],
    -1004: [pod("DeadlineExceeded", "Pod was active on the node longer than the specified deadline", end(137))],
    -1005: [  # refused: affinity (as 1.21 said it), taints, what the node has not
        unfit("NodeAffinity", "didn't match Pod's node affinity/selector"),
        pod("MatchNodeSelector", "Pod Predicate MatchNodeSelector failed"),
        unfit("TaintToleration", "had taints that the pod didn't tolerate"),
        rejected("SysctlForbidden", 'forbidden sysctl: "kernel.msgmax" not allowlisted'),
        rejected("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"),
        rejected("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"),
        unaligned("requested 3 cpus not multiple cpus per core = 2"),
        rejected("PodFeatureUnsupported", "Pod requires node features that are not available: X"),
        rejected("EmptyPodSharedPoolError", "pod-level exclusive resources leave no CPUs for the other containers"),
    ],
    -1006: [  # an unexpected error of the node
        rejected(
            "UnexpectedAdmissionError",
            "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, "
            "which is unexpected",
        ),
        rejected("InvalidNodeInfo", "Kubelet cannot get node info."),
    ],
    # memory: of a container, of a child of it, of an init container; and one that has survived it
    -1200: [exited(137, "OOMKilled"), exited(1, "OOMKilled", "worker died"), pod(init=end(137, "OOMKilled"))],
    7: [pod("", "", end(0, "OOMKilled"), end(7))],
    -1201: [  # creation
        start_error(
            IN_INIT + 'error mounting "/var/lib/kubelet/pods/7b/volumes/v" to rootfs at "/etc/passwd": mount '
            "/var/lib/v:/etc/passwd (via /proc/self/fd/6), flags: 0x5000: not a directory"
        ),
        cannot_run(
            128,
            DOCKERD_19
            + r'"process_linux.go:449: container init caused \"rootfs_linux.go:58: mounting \\\"/data\\\" to '
            r'rootfs caused \\\"permission denied\\\"\"": unknown',
        ),
        start_error(
            IN_INIT + "error running prestart hook #0: exit status 1, stdout: , stderr: "
            "nvidia-container-cli: initialization error: nvml error: driver not loaded"
        ),
        start_error("error during container init: error running hook #0: exit status 1"),
        start_error(IN_INIT + "unable to init seccomp: invalid argument"),
    ],
    -1202: [  # permission denied: of containerd, of two of dockerd, and when the program begins
        start_error('exec: "/etc/passwd": permission denied'),
        start_error('exec: "/etc": is a directory'),
        start_error('chdir to cwd ("/root") set in config.json failed: permission denied'),
        cannot_run(126, DOCKERD + 'exec: "/run.sh": permission denied: unknown'),
        cannot_run(126, DOCKERD_19 + r'"exec: \"/run.sh\": permission denied": unknown'),
        exited(255, "Error", "exec /mnt/run.sh: permission denied\n"),
    ],
    -1203: [  # not found: of containerd, of crun, of dockerd; and an interpreter, as older and older runc said it
        start_error('exec: "nosuchprogram": executable file not found in $PATH'),
        start_error('exec: "/no/such/program": stat /no/such/program: no such file or directory'),
        start_error('exec: "/etc/passwd/x": stat /etc/passwd/x: not a directory'),
        exited(
            128, "StartError", SHIM + "crun: executable file `nosuch` not found in $PATH: No such file or directory"
        ),
        cannot_run(127, DOCKERD + 'exec: "nosuch": executable file not found in $PATH: unknown'),
        exited(1, "Error", "exec /s/run: no such file or directory\n"),
        exited(1, "Error", RUNC_1_0 + ":228: exec user process caused: no such file or directory\n"),
        exited(1, "Error", RUNC_1_0 + ':190: exec user process caused "no such file or directory"\n'),
    ],
    -1204: [  # other starts
        start_error(IN_INIT + "mkdir /etc/passwd: not a directory"),
        cannot_run(128, "driver failed programming external connectivity on endpoint"),
        exited(1, "Error", "exec /s/garbage: exec format error\n"),
    ],
    137: [  # lost with its node's memory of it
        exited(137, "ContainerStatusUnknown", "The container could not be located when the pod was terminated"),
    ],
    # what users' own programs say is theirs, and the contract comes first
    3: [exited(3, "Error", "Traceback:\nexec /x: no such file or directory\nin line 3")],
    127: [exited(127, "Error", "sh: 2: exec: /tmp/x: not found\n")],
    1: [pod("Terminated", "by hand", end(1))],
    210: [pod("Evicted", "", end(210))],
}
ROWS = {f"{code}, {place}": (code, seen) for code, group in STATUSES.items() for place, seen in enumerate(group)}
PHRASES = reference.shipped_codes()
SIGNALS = [code for code in PHRASES if code > 0]
"""Exit codes that are completion codes of their own."""


@each("code, seen", ROWS.values(), ROWS)
def test_a_failure_is_recognised_and_told_with_the_whole_message_of_the_container(code: int, seen: Pod) -> None:
    found = failed(seen, CODES)
    assert found.code == code, found.diagnostics
    if code in PHRASES:
        assert (found.phrase, found.type.name, found.type.attributes) == (PHRASES[code][0], "Failed", PHRASES[code][1])
    _, is_matched, parts = found.diagnostics.partition(": PodPattern matched: ")
    containers = (*seen.status.init_container_statuses, *seen.status.container_statuses)
    said = {one.name: one.state.terminated.message for one in containers if one.state.terminated}
    for shown in msgspec.json.decode(parts).get("containers", ()) if is_matched else ():
        assert shown.get("message", "") == said[shown["name"]]


@each("code", range(1, 256))
def test_an_exit_code_alone_means_a_signal_or_itself(code: int) -> None:
    found = failed(pod("", "", end(0, "Completed"), end(code, message="some words")), CODES)
    assert found.code == code
    if code in SIGNALS:
        assert (found.phrase, found.type.attributes) == PHRASES[code]
    else:
        assert re.fullmatch("Container(Unrecognized|Transient|TransientConflict|Permanent)Failed", found.phrase)


def test_the_codes_are_those_of_the_reference_and_everything_else_has_its_default() -> None:
    settings = read_settings(default_config())
    assert msgspec.structs.replace(settings, pod_failure_spec=()) == Settings()
    shipped = [spec.info() for spec in settings.pod_failure_spec]
    assert {info.code: (info.phrase, info.type.attributes) for info in shipped} == PHRASES
    assert {info.type.name for info in shipped} == {TypeName.FAILED}
    assert not any(is_reserved(info.code) for info in shipped)


def test_every_pattern_matches_some_status() -> None:
    """One that matches no status of the table is untested."""
    statuses = [seen for _, seen in ROWS.values()] + [exited(code) for code in SIGNALS]
    for info in [spec.info() for spec in read_settings(default_config()).pod_failure_spec]:
        for pattern in info.patterns:
            alone = replace(info, patterns=(pattern,))
            assert any(failed(seen, [alone]).code == info.code for seen in statuses), (info.code, pattern)


def test_the_comments_show_the_defaults() -> None:
    """Uncommented, the documented keys are all that there are, are valid and change nothing."""
    keys = [line[1:] for line in default_config().splitlines() if re.match(r"#(\w|  )", line)]
    elsewhere = ("kubeApiServerAddress", "kubeConfigFilePath")
    text = "\n".join(line for line in keys if not line.startswith(elsewhere))
    read = read_settings(text)
    assert read.kube_client_qps == 80
    assert msgspec.structs.replace(read, kube_client_qps=None) == Settings()
    shown = yaml.safe_load(text) | dict.fromkeys((*elsewhere, "podFailureSpec"))
    assert leaves(shown) == leaves(msgspec.to_builtins(Settings()))


def test_the_manifest_holds_the_file_as_it_is() -> None:
    (document,) = [one for one in yaml.safe_load_all(MANIFEST.read_text()) if one["kind"] == "ConfigMap"]
    assert document["metadata"]["name"] == "frameworkcontroller-config"
    assert document["data"] == {FILE_NAME: default_config()}
