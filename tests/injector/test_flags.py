"""The command line: what it refuses, and what its flags say of the image, the user and the resources of a barrier."""

import re
from typing import Any

import pytest

from frameworkinjector import __version__, flags
from frameworkinjector.__main__ import main
from frameworkinjector.offline.render import rendered
from frameworkinjector.review.config import Config
from frameworkinjector.serving import log, run
from tests.injector.golden_pods import pod_of
from tests.support.rows import each

DIGEST = "registry.example.org:5000/team/barrier:1.0@sha256:" + "ab" * 32


def spec_of(pod: Any, options: list[str]) -> Any:
    """Return the spec of a Pod that is injected with these flags."""
    return rendered(pod, *flags.offline(options))[0]["spec"]


@each("own, expected", [(None, "ab"), ("", "ab"), ("cb", "cba"), ("ba", "ba")])
def test_the_secrets_for_the_registry_are_added_once(own: str | None, expected: str) -> None:
    pod = pod_of("no-preset")
    if own is not None:
        pod["spec"]["imagePullSecrets"] = [{"name": name} for name in own]
    spec = spec_of(pod, [f"--barrier-image-pull-secret={name}" for name in "aba"])
    assert [one["name"] for one in spec["imagePullSecrets"]] == [*expected]


def test_by_default_the_barrier_has_the_version_of_the_injector() -> None:
    assert Config(version="1").barrier_image.endswith(f"/barrier:{__version__}")


def test_the_flags_say_the_image_its_pulls_and_what_the_barrier_takes() -> None:
    options = [f"--barrier-image={DIGEST}", "--barrier-pull-policy=Always", "--barrier-image-pull-secret=a.b"]
    options += ["--barrier-requests=cpu=20m", "--barrier-limits=cpu=1,memory=64Mi"]
    spec = spec_of(pod_of("resources-guaranteed-sidecar"), options)
    (barrier,) = spec["initContainers"]
    assert (barrier["image"], barrier["imagePullPolicy"]) == (DIGEST, "Always")
    assert spec["imagePullSecrets"] == [{"name": "a.b"}]
    assert barrier["resources"] == {"requests": {"cpu": "1"}, "limits": {"cpu": "1", "memory": "64Mi"}}


@each(
    "case, options, uid",
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
    case: str, options: list[str], uid: int | None
) -> None:
    barrier = spec_of(pod_of(case), options)["initContainers"][-1]
    assert barrier["securityContext"].get("runAsUser") == uid


OF_SERVER = [
    (["serve", "--env-files=maybe"], "'maybe' is not one of none, plain, quoted"),
    (["--port=70000"], "'70000' is not a port"),
    (["--certificate-days=0"], "'0' is not a positive number"),
    (["--tls-cert-file=x"], "--tls-cert-file and --tls-key-file are needed together"),
    (["--namespace=x", "--kubeconfig=/nonexistent"], "/nonexistent"),
    (["--namespace=x"], "KUBERNETES_SERVICE_HOST is not set"),
    (["render", "-f", "pod.yaml"], "invalid choice: 'render'"),
]
OF_BARRIER = [
    ("--barrier-image=a b", "the name of an image"),
    ("--barrier-image-pull-secret=A", "the name of a Secret"),
    ("--barrier-pull-policy=Sometimes", "'Sometimes' is not one of Always, IfNotPresent, Never"),
    ("--barrier-requests=cpu", "a list as cpu=10m,memory=32Mi"),
    ("--barrier-limits=memory=1Mi", "at least 32Mi"),
    ("--barrier-uid=0", "must be none, or the number of a user who is not root"),
    ("--barrier-uid=nobody", "must be none, or the number of a user who is not root"),
    ("--barrier-requests=memory=1Gi", "memory of --barrier-requests is above --barrier-limits"),
]


@each("arguments, expected", [*OF_SERVER, *((["serve", option], expected) for option, expected in OF_BARRIER)])
def test_a_usage_error_is_exit_code_2_and_said_on_stderr(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(log, "configure", lambda _: None)
    monkeypatch.setattr(run, "serve", lambda _: pytest.fail("it serves"))
    try:
        code: object = main(arguments)
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert expected in capsys.readouterr().err


@each("option, expected", OF_BARRIER)
def test_a_bad_flag_of_the_barrier_is_refused_by_its_name_without_a_cluster_too(option: str, expected: str) -> None:
    with pytest.raises(flags.FlagError, match=re.escape(expected)) as refusal:
        flags.offline([option])
    assert option.partition("=")[0] in str(refusal.value)
