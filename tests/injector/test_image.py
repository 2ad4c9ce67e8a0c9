"""The image of the barrier: its name, the policy of its pulls, and the Secrets for its registry."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import jsonpatch
import pytest

from frameworkinjector import __version__, flags
from frameworkinjector.__main__ import main
from frameworkinjector.offline.render import rendered
from frameworkinjector.review.config import Config, EnvFiles
from frameworkinjector.review.review import answer
from tests.injector.golden_pods import pod_of
from tests.injector.reviews import review_of
from tests.support.rows import each

DIGEST = "registry.example.org:5000/team/barrier:1.0@sha256:" + "ab" * 32


def injected(pod: Any, **config: Any) -> Any:
    given = answer(review_of(pod), Config(version="1", **config), EnvFiles.QUOTED)
    patch = json.loads(base64.b64decode(json.loads(given.body)["response"]["patch"]))
    return jsonpatch.apply_patch(pod, patch)


@each("own, expected", [(None, "ab"), ("", "ab"), ("cb", "cba"), ("ba", "ba")])
def test_the_secrets_for_the_registry_are_added_once(own: str | None, expected: str) -> None:
    pod = pod_of("no-preset")
    if own is not None:
        pod["spec"]["imagePullSecrets"] = [{"name": name} for name in own]
    after = injected(pod, pull_secrets=("a", "b", "a"))
    assert [one["name"] for one in after["spec"]["imagePullSecrets"]] == [*expected]


def test_by_default_the_barrier_has_the_version_of_the_injector() -> None:
    assert Config(version="1").barrier_image.endswith(f"/barrier:{__version__}")


def test_the_flags_say_the_image_its_pulls_and_what_the_barrier_takes() -> None:
    options = [f"--barrier-image={DIGEST}", "--barrier-pull-policy=Always", "--barrier-image-pull-secret=a.b"]
    options += ["--barrier-image-pull-secret=c", "--barrier-requests=cpu=20m", "--barrier-limits=cpu=1,memory=64Mi"]
    config, env_files = flags.offline(options)
    spec = rendered(pod_of("resources-guaranteed-sidecar"), config, env_files)[0]["spec"]
    (barrier,) = spec["initContainers"]
    assert (barrier["image"], barrier["imagePullPolicy"]) == (DIGEST, "Always")
    assert spec["imagePullSecrets"] == [{"name": "a.b"}, {"name": "c"}]
    assert barrier["resources"] == {"requests": {"cpu": "1"}, "limits": {"cpu": "1", "memory": "64Mi"}}


@pytest.mark.parametrize(
    ("case", "option", "uid"),
    [
        ("several-containers", [], 65532),
        ("several-containers", ["--barrier-uid=1000680000"], 1_000_680_000),
        ("several-containers", ["--barrier-uid=none"], None),
        # A Pod has its own user, unless that is root.
        ("run-as-user", ["--barrier-uid=none"], 1000),
        ("run-as-root", ["--barrier-uid=none"], 65532),
    ],
)
def test_the_user_is_that_of_the_pod_or_of_the_flag_or_left_to_the_cluster(
    case: str, option: list[str], uid: int | None
) -> None:
    config, env_files = flags.offline(option)
    barrier = rendered(pod_of(case), config, env_files)[0]["spec"]["initContainers"][-1]
    assert barrier["securityContext"].get("runAsUser") == uid


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("--barrier-image=a b", "the name of an image"),
        ("--barrier-image-pull-secret=A", "the name of a Secret"),
        ("--barrier-requests=cpu", "a list as cpu=10m,memory=32Mi"),
        ("--barrier-limits=memory=1Mi", "at least 32Mi"),
        ("--barrier-uid=0", "must be none, or the number of a user who is not root"),
        ("--barrier-uid=nobody", "must be none, or the number of a user who is not root"),
        ("--barrier-requests=memory=1Gi", "memory of --barrier-requests is above --barrier-limits"),
    ],
)
def test_a_bad_option_is_refused_by_its_name(option: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", option])
    assert ended.value.code == 2
    err = capsys.readouterr().err
    assert expected in err
    assert option.partition("=")[0] in err
    with pytest.raises(flags.FlagError, match=re.escape(expected)):
        flags.offline([option])
