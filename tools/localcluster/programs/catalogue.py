"""The programs of a cluster, and those that install into it: projects, versions, the commands that report a version.

Versions are kept in one place, the `require` lines of `go/<project>/go.mod`. Kubernetes has a folder for each
version that can be built, `go/kubernetes-<version>/`. A version of Kubernetes that is none, or of which no patch
version is known, is a SetupError, and one that has no go.mod a BinaryError; the text says which there are.
"""

import functools
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from localcluster.errors import BinaryError, SetupError

GO_MODULES = Path(__file__).parent / "go"

# The version of Kubernetes unless another one is asked for.
_KUBERNETES_VERSION = "1.37.2"


def minor_of(version: str) -> int:
    """Return the number that Kubernetes calls its minor version: 36 for `1.36` and for `1.36.3`."""
    return int(version.split(".")[1])


# The versions of Kubernetes that can be built, the oldest first: one of each minor version.
BUILDABLE = tuple(
    sorted((folder.name.removeprefix("kubernetes-") for folder in GO_MODULES.glob("kubernetes-*")), key=minor_of)
)


@dataclass(frozen=True)
class Program:
    """One executable."""

    name: str
    project: str
    """See `module_of`."""
    package: str
    """Its main package."""
    version_command: tuple[str, ...] = ("--version",)
    """The arguments that make it print its version; JobSet has none, so it is not taken from PATH."""
    version_variable: str = ""
    """The variable of Go that holds the version, with `v`, if its releases set one."""


MODULES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kwok": "sigs.k8s.io/kwok",
    "coredns": "github.com/coredns/coredns",
    "helm": "helm.sh/helm/v4",
    "cosign": "github.com/sigstore/cosign/v3",
    "kueue": "sigs.k8s.io/kueue",
    "jobset": "sigs.k8s.io/jobset",
    "lws": "sigs.k8s.io/lws",
    "trainer": "github.com/kubeflow/trainer/v2",
    "volcano": "volcano.sh/volcano",
    "scheduler-plugins": "sigs.k8s.io/scheduler-plugins",
    "versitygw": "github.com/versity/versitygw",
}
"""The module that each project's go.mod requires."""
_KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
CATALOGUE: Mapping[str, Program] = {
    program.name: program
    for program in (
        *(Program(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}") for name in _KUBERNETES),
        Program("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl", ("version", "--client")),
        Program("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
        Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
        Program("coredns", "coredns", "localcluster/tools/coredns", ("-version",)),
        Program("helm", "helm", "helm.sh/helm/v4/cmd/helm", ("version",), "helm.sh/helm/v4/internal/version.version"),
        Program(
            "cosign",
            "cosign",
            "github.com/sigstore/cosign/v3/cmd/cosign",
            ("version",),
            "sigs.k8s.io/release-utils/version.gitVersion",
        ),
        *(
            Program(name, name, MODULES[name] + folder, version_variable=f"{MODULES[name]}/pkg/version.GitVersion")
            for name, folder in (("kueue", "/cmd/kueue"), ("jobset", ""), ("lws", "/cmd"))
        ),
        Program("trainer", "trainer", f"{MODULES['trainer']}/cmd/trainer-controller-manager"),
        *(Program(name, name, f"{MODULES[name]}/cmd/scheduler") for name in ("volcano", "scheduler-plugins")),
        Program(
            "versitygw", "versitygw", "github.com/versity/versitygw/cmd/versitygw", version_variable="main.Version"
        ),
    )
}


def architecture() -> str:
    """Return this machine's architecture as Go and image registries name it: `amd64`, `arm64` ..."""
    machine = platform.machine()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


@functools.cache
def pinned_version(project: str) -> str:
    """Return the version, without `v`, that `go/<project>/go.mod` requires, or the default one of Kubernetes."""
    if project == "kubernetes":
        return _KUBERNETES_VERSION
    text = (GO_MODULES / project / "go.mod").read_text()
    found = re.search(rf"^require {re.escape(MODULES[project])} v(\S+)$", text, re.MULTILINE)
    assert found, f"go/{project}/go.mod has no line `require {MODULES[project]} v...`"
    return found[1]


def parse_version(requested: str) -> str:
    """Return a full version of Kubernetes, without `v`, by `1.30.14`, `v1.30.14`, or `1.30`, if it can be built."""
    found = re.fullmatch(r"v?(\d+\.\d+)(\.\d+)?", requested.strip())
    if not found:
        raise SetupError(
            f"KUBERNETES={requested!r} is not a version: write {pinned_version('kubernetes')} or 1.30, say"
        )
    minor, patch = found[1], found[2]
    if patch:
        return minor + patch
    for version in BUILDABLE:
        if version.startswith(f"{minor}."):
            return version
    raise SetupError(f"KUBERNETES={requested!r} needs a patch version; these can be built: {', '.join(BUILDABLE)}")


def version_of(program: Program, kubernetes: str) -> str:
    """Return the version of a program that belongs to this version of Kubernetes."""
    return kubernetes if program.project == "kubernetes" else pinned_version(program.project)


def module_of(program: Program, version: str) -> Path:
    """Return the folder of the go.mod that a program of this version is built with."""
    if program.project != "kubernetes":
        return GO_MODULES / program.project
    folder = GO_MODULES / f"kubernetes-{version}"
    if not folder.is_dir():
        raise BinaryError(
            f"Kubernetes {version} has no go.mod in {GO_MODULES}: build one of {', '.join(BUILDABLE)}, or add one as"
            " the README of localcluster says"
        )
    return folder
