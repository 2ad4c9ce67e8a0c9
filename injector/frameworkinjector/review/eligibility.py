"""Which Pods and which of their containers get a barrier, and whether it fits the controller that made the Pod.

`plan` asks all of it. The barrier does not run on Windows. Where the Pod does not name containers itself, those of its
author get something, and not those that another injector added: a proxy of a mesh has no use for the gang, and most
have no command that could be wrapped. Whether it is there already depends on the order of the webhooks.

The controller writes its version into each Pod that it creates, so the injector needs no permission to learn it. The
barrier's version is the tag of its image, or that of the injector where the tag says none. Source of what fits:
docs/operate/releases.md.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from frameworkcontroller.api import names as fc
from frameworkinjector.review.pod import Container, NodeSelectorTerm, Pod, Spec

# Containers that injectors add, by the names that these give them.
PROXIES: Final = frozenset((
    "istio-proxy", "linkerd-proxy", "linkerd-debug", "daprd", "consul-dataplane", "envoy-sidecar", "kuma-sidecar",
    "vault-agent", "gke-gcsfuse-sidecar", "otc-container",
))  # fmt: skip
# Istio's templates may add containers of any name; its annotation lists them.
ISTIO_STATUS: Final = "sidecar.istio.io/status"

OS_LABELS: Final = ("kubernetes.io/os", "beta.kubernetes.io/os")
# The kubelet of Windows sets it, no other does.
BUILD_LABEL: Final = "node.kubernetes.io/windows-build"
WINDOWS: Final = "windows"

MAX_MINORS: Final = 1
# Before 1.0 a minor version counts as after it.
_VERSION: Final = re.compile(r"v?([0-9]{1,6})\.([0-9]{1,6})(?:[.+-][\w.+-]{0,100})?", re.ASCII)

Minor = tuple[int, int]


class _IstioStatus(msgspec.Struct):
    containers: list[str] | None = None


_decode: Final = msgspec.json.Decoder(_IstioStatus).decode


def authors_containers(pod: Pod) -> list[tuple[int, Container]]:
    """Return the containers of `spec.containers` that no other injector added, with their positions.

    A Pod of proxies only, for example a gateway, is what its author wrote.
    """
    candidates = list(enumerate(pod.spec.containers or ()))
    added = PROXIES.union(_listed_by_istio(pod))
    return [(index, one) for index, one in candidates if one.name not in added] or candidates


def _listed_by_istio(pod: Pod) -> Sequence[str]:
    try:
        return _decode(pod.annotations.get(ISTIO_STATUS, "{}")).containers or ()
    except (msgspec.DecodeError, RecursionError):
        return ()


def needs_windows(spec: Spec) -> bool:
    """Report whether the Pod says that it is for Windows, or can be scheduled to nodes with Windows only."""
    if spec.os is not None and spec.os.name == WINDOWS:
        return True
    selected = spec.node_selector or {}
    if BUILD_LABEL in selected or WINDOWS in map(selected.get, OS_LABELS):
        return True
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    terms = (required.node_selector_terms if required else None) or ()
    # A node must match one of the terms; an empty one matches no node.
    matching = [one for one in terms if one.match_expressions or one.match_fields]
    return bool(matching) and all(map(_term_needs_windows, matching))


def _term_needs_windows(term: NodeSelectorTerm) -> bool:
    for one in term.match_expressions or ():
        if one.key == BUILD_LABEL and one.operator in {"In", "Exists", "Gt", "Lt"}:
            return True
        if one.key not in OS_LABELS:
            continue
        values = one.values or ()
        if one.operator == "In" and values and all(value == WINDOWS for value in values):
            return True
        if one.operator == "NotIn" and "linux" in values:
            return True
    return False


@dataclass(frozen=True, slots=True)
class Skew:
    """Two versions that are too far apart, each by its major and minor number, for example `0.3`."""

    controller: str
    barrier: str

    @property
    def sentence(self) -> str:
        """What the user reads."""
        return (
            f"The controller of this Pod is of version {self.controller} and its barrier of {self.barrier}: "
            f"they work together up to {MAX_MINORS} minor version apart, so upgrade the older one."
        )


def skew_of(pod: Pod, image: str, version: str) -> Skew | None:
    """Return the skew of a Pod's controller and its barrier; None if they fit or one of them is unknown.

    `image` is that of the barrier, `version` that of the injector.
    """
    controller = minor_of(pod.annotations.get(fc.CONTROLLER_VERSION, ""))
    barrier = minor_of(tag_of(image)) or minor_of(version)
    if controller is None or barrier is None or fit(controller, barrier):
        return None
    return Skew(f"{controller[0]}.{controller[1]}", f"{barrier[0]}.{barrier[1]}")


def fit(controller: Minor, barrier: Minor) -> bool:
    """Report whether two versions work together: of one major version, and minor versions next to each other."""
    return controller[0] == barrier[0] and abs(controller[1] - barrier[1]) <= MAX_MINORS


def minor_of(text: str) -> Minor | None:
    """Return the major and minor number of a version; None if the text is no version."""
    found = _VERSION.fullmatch(text)
    return (int(found[1]), int(found[2])) if found else None


def tag_of(image: str) -> str:
    """Return the tag in the name of an image, "" if it has none."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]
