"""AdmissionReviews of Pods, and the review function with a fixed configuration."""

import json
from typing import Any

from frameworkinjector.review.config import Config, EnvFiles
from frameworkinjector.review.review import Answer, answer

CONFIG = Config(version="1.2.3", barrier_image="docker.io/frameworkcontroller/barrier:dev", in_place_restart=True)
# The DNS name of the Service, for which certificates are issued and by which the API server calls.
SERVICE = "frameworkinjector.frameworkcontroller-system.svc"


LABELS = {"frameworkcontroller.microsoft.com/barrier": "enabled", "FC_FRAMEWORK_NAME": "mnist"}


def framework_pod(containers: list[Any], annotations: dict[str, str]) -> dict[str, Any]:
    """Return a Pod of a Framework that asks for the barrier."""
    return {"metadata": {"labels": LABELS, "annotations": annotations}, "spec": {"containers": containers}}


def review_of(pod: Any, **request: Any) -> bytes:
    """Return a review of the creation of a Pod; `request` replaces fields of its request."""
    whole = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "demo",
        "object": pod,
        **request,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": whole}).encode()


def small_review(padding: int = 0) -> bytes:
    """Return a review of a Pod that is injected, with this many bytes of padding."""
    return review_of(framework_pod([{"name": "app"}], {"padding": "x" * padding}), uid="1")


def reviewed(body: bytes) -> Answer:
    """Review a body with a cluster that supports everything."""
    return answer(body, CONFIG, EnvFiles.QUOTED)
