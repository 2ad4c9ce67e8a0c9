"""Which containers the author of a Pod wrote, and which another injector added.

`plan` calls `authors_containers` where the Pod does not name containers itself. A proxy of a mesh has no use for the
gang, and most have no command that could be wrapped. Whether it is there already depends on the order of the webhooks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frameworkinjector.review.pod import Container, Pod

# Containers that injectors add, by the names that these give them.
PROXIES: Final = frozenset(
    {
        "istio-proxy",
        "linkerd-proxy",
        "linkerd-debug",
        "daprd",
        "consul-dataplane",
        "envoy-sidecar",
        "kuma-sidecar",
        "vault-agent",
        "gke-gcsfuse-sidecar",
        "otc-container",
    }
)
# Istio's templates may add containers of any name; its annotation lists them.
ISTIO_STATUS: Final = "sidecar.istio.io/status"


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
