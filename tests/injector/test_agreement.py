"""What the injector hands on, the barrier takes: the two programs share no code, so they are compared here."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frameworkbarrier import presets as of_the_barrier
from frameworkbarrier import settings as barrier_settings
from frameworkinjector import barrier, names
from frameworkinjector.config import Config, EnvFiles
from frameworkinjector.errors import RefusalError
from frameworkinjector.plan import Plan, decide
from frameworkinjector.pod import Container, Metadata, Pod, Spec
from frameworkinjector.presets import VARIABLES, Preset
from frameworkinjector.settings import KNOWN

CONFIG = Config(version="1.2.3")
SUPPLIED = of_the_barrier.names()


def environment(container: dict[str, Any]) -> dict[str, str]:
    """The variables as the kubelet would set them."""
    found: dict[str, str] = {}
    for one in container["env"]:
        if "value" in one:
            escaped = re.sub(r"\$\((\w+)\)", lambda match: found[match[1]], one["value"].replace("$$", "\0"))
            found[one["name"]] = escaped.replace("\0", "$")
        else:
            found[one["name"]] = "uid-or-name"
    return found


def pod(annotations: dict[str, str], *, framework: bool) -> Pod:
    own = {"FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "1", "FC_TASK_ATTEMPT_ID": "2"} if framework else {}
    labels = {names.LABEL: "enabled", **({"FC_FRAMEWORK_NAME": "mnist"} if framework else {})}
    return Pod(Metadata(labels, {**own, **annotations}), Spec([Container("app", ["run"])]))


VALUES = {
    "preset": st.lists(st.sampled_from(SUPPLIED), min_size=1, max_size=3, unique=True).map(",".join),
    "mode": st.sampled_from(["init", "sidecar"]),
    "wait-for": st.sampled_from(["ip", "arrived"]),
    "timeout": st.integers(1, 2_592_000).map(str),
    "env": st.sampled_from(["auto", "file", "wrap", "none"]),
    "hosts": st.sampled_from(["mount", "none"]),
    "ports": st.sampled_from(["ps=2222,worker=2223", "A.b_c-d=1", "x=65535"]),
    "containers": st.just("app"),
    "selector": st.sampled_from(["app=x", "a in (b,c),!d", "example.org/job-name=train"]),
    "roles": st.sampled_from(["worker=4", "ps=0,worker=10000", "Big.Role_1=2"]),
    "role-label": st.sampled_from(["role", "example.org/role"]),
    "slots": st.sampled_from(["8", "999999", "launcher=0,worker=8"]),
    "nproc-per-node": st.sampled_from(["1", "8", "auto", "cpu", "gpu"]),
    "template": st.just("templates"),
    "image": st.just("barrier:2"),
    "log-format": st.sampled_from(["text", "json"]),
}


def test_each_setting_is_compared() -> None:
    assert set(VALUES) == set(KNOWN)


@given(
    chosen=st.fixed_dictionaries({}, optional=VALUES),
    framework=st.booleans(),
    env_files=st.sampled_from(EnvFiles),
)
@settings(max_examples=400, deadline=None)
def test_the_barrier_takes_what_the_injector_accepts(
    chosen: dict[str, str], framework: bool, env_files: EnvFiles
) -> None:
    annotations = {names.PREFIX + name: value for name, value in chosen.items()}
    try:
        plan = decide(pod(annotations, framework=framework), "demo", CONFIG, env_files)
    except RefusalError:
        return
    assert isinstance(plan, Plan)
    environ = environment(plan.barrier)
    understood = barrier_settings.parse(environ)
    assert understood.mode == chosen.get("mode", "init")
    assert understood.timeout_sec == float(chosen.get("timeout", barrier.DEFAULT_TIMEOUT_SECONDS))
    assert understood.output_dir == names.OUTPUT_DIR
    assert understood.token_dir == names.TOKEN_DIR
    assert set(understood.presets) == set(filter(None, chosen.get("preset", "").split(",")))
    assert understood.selector == chosen.get("selector", "")
    assert understood.namespace == "demo"
    assert understood.me.uid == "uid-or-name"
    if framework:
        assert (understood.framework, understood.configmap) == ("mnist", "mnist-attempt")
        assert (understood.me.role, understood.me.index) == ("worker", 1)
    # Every variable that we set is one that the barrier reads, or one of the controller's for a user's template.
    read = {one.env for one in barrier_settings.SETTINGS.values()}
    assert all(name in read or name.startswith("FC_") for name in environ)


@pytest.mark.parametrize("name", SUPPLIED)
def test_the_variables_of_each_preset_are_those_that_the_barrier_writes(name: str) -> None:
    ours = [variable.name for variable in VARIABLES[Preset(name)]]
    # A value that does not fit into a variable is in a file that NAME_FILE names.
    own = [one for one in ours if one.removesuffix("_FILE") not in ours or not one.endswith("_FILE")]
    assert sorted(own) == sorted(of_the_barrier.variables(name))
