"""Which versions of the controller and the barrier fit, and what the injector says where they do not."""

import json
from typing import Any

import structlog

from frameworkcontroller.api import names as fc
from frameworkinjector.names import PREFIX
from frameworkinjector.review.config import Config, EnvFiles
from frameworkinjector.review.eligibility import fit, minor_of, tag_of
from frameworkinjector.review.review import answer
from tests.injector.reviews import framework_pod, review_of, small_review
from tests.support.rows import each


def pod_of(controller: str | None, image: str | None = None) -> dict[str, Any]:
    """Return a Pod of a controller of this version, and of this image of the barrier if one is named."""
    given = {fc.CONTROLLER_VERSION: controller, f"{PREFIX}image": image}
    pod = framework_pod([{"name": "app"}], {name: value for name, value in given.items() if value is not None})
    pod["spec"]["restartPolicy"] = "Never"
    return pod


@each(
    "controller, barrier, expected",
    [
        ((0, 1), (0, 1), True), ((0, 1), (0, 2), True), ((0, 2), (0, 1), True), ((0, 1), (0, 3), False),
        ((1, 4), (1, 5), True), ((1, 4), (1, 6), False), ((1, 0), (2, 0), False), ((0, 9), (1, 0), False),
    ],
)  # fmt: skip
def test_versions_fit_up_to_one_minor_version_apart(
    controller: tuple[int, int], barrier: tuple[int, int], expected: bool
) -> None:
    assert fit(controller, barrier) is expected


@each(
    "text, expected",
    [
        ("0.1.0", (0, 1)), ("v1.22.3", (1, 22)), ("1.2", (1, 2)), ("1.2.3-rc.1", (1, 2)), ("1.2.3+build", (1, 2)),
        ("", None), ("dev", None), ("latest", None), ("1", None), ("1.2 3", None), ("1.2.3\n", None), ("٣.١", None),
        ("1" * 7 + ".0", None), ("1.2." + "3" * 200, None),
    ],
)  # fmt: skip
def test_a_version_is_read_from_text_of_anybody(text: str, expected: tuple[int, int] | None) -> None:
    assert minor_of(text) == expected


@each(
    "image, tag",
    [
        ("docker.io/frameworkcontroller/barrier:0.1.0", "0.1.0"), ("barrier", ""),
        ("127.0.0.1:5000/frameworkcontroller/barrier:0.1.0", "0.1.0"), ("127.0.0.1:5000/barrier", ""),
        ("registry.example/barrier:0.1.0@sha256:abc", "0.1.0"), ("registry.example/barrier@sha256:abc", ""),
    ],
)  # fmt: skip
def test_the_tag_of_an_image_is_found(image: str, tag: str) -> None:
    assert tag_of(image) == tag


@each(
    "controller, image, apart",
    [
        ("0.4.0", "registry.example/barrier:0.2.0", ("0.4", "0.2")),
        ("0.3.9", "registry.example/barrier:0.2.0", None),
        # A digest says nothing, and nor does a tag that moves: the injector's own version counts.
        ("0.4.0", "registry.example/barrier@sha256:0", ("0.4", "0.2")),
        ("0.4.0", "registry.example/barrier:dev", ("0.4", "0.2")),
        ("0.3.0", "registry.example/barrier:dev", None),
        # Microsoft's controller writes no version.
        (None, "registry.example/barrier:0.2.0", None),
        ("not a version", "registry.example/barrier:0.2.0", None),
    ],
)
def test_an_injected_pod_is_warned_of_versions_that_are_too_far_apart(
    controller: str | None, image: str, apart: tuple[str, str] | None
) -> None:
    config = Config(version="0.2.0", barrier_image=image)
    found = answer(review_of(pod_of(controller)), config, EnvFiles.QUOTED)
    response = json.loads(found.body)["response"]
    assert (response["allowed"], bool(response["patch"])) == (True, True)
    assert (found.skew and (found.skew.controller, found.skew.barrier)) == apart
    warnings = [f"is of version {apart[0]} and its barrier of {apart[1]}"] if apart else []
    assert all(expected in said for said, expected in zip(response.get("warnings", []), warnings, strict=True))


def test_the_image_of_a_pod_counts_where_it_names_one() -> None:
    config = Config(version="0.2.0", barrier_image="registry.example/barrier:0.2.0")
    pod = pod_of("0.4.0", "registry.example/barrier:0.4.1")
    assert answer(review_of(pod), config, EnvFiles.QUOTED).skew is None


async def test_a_skew_is_counted_and_logged(serve: Any) -> None:
    config = Config(version="0.2.0", barrier_image="registry.example/barrier:dev")
    serving = await serve(lambda body: answer(body, config, EnvFiles.QUOTED))
    with structlog.testing.capture_logs() as lines:
        async with serving.session() as session:
            await serving.post(session, review_of(pod_of("9.9.0")))
            await serving.post(session, small_review())
    levels = [(line["log_level"], line.get("controller"), line.get("barrier")) for line in lines]
    assert levels == [("warning", "9.9", "0.2"), ("info", None, None)]
    assert serving.metric("version_skew_total") == 1
