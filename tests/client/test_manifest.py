"""Frameworks as they are written in Python, to and from YAML."""

from __future__ import annotations

import ast
import json
import linecache
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from frameworkclient import CompletionPolicy, Dependency, Framework, ManifestError, RetryPolicy, Role, pod_template
from frameworkclient.model import functions
from frameworkclient.model.yaml_text import documents

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = Path(__file__).parents[2] / "examples"
FULL = Framework(
    "training",
    (
        Role("chief", 1, {"spec": {"containers": []}}),
        Role(
            "worker",
            4,
            {"spec": {"containers": []}},
            retry_policy=RetryPolicy(fancy_retry_policy=True, max_retry_count=-1),
            completion_policy=CompletionPolicy(min_failed_task_count=2, min_succeeded_task_percent=50),
            pod_graceful_deletion_timeout_sec=0,
            depends_on=(Dependency("chief", "Ready"),),
        ),
    ),
    namespace="demo",
    labels={"team": "vision"},
    annotations={"note": "mine"},
    description="Trains",
    execution_type="Create",
    retry_policy=RetryPolicy(max_retry_count=3),
    active_deadline_seconds=60,
    ttl_seconds_after_finished=0,
)


def test_a_framework_comes_back_from_yaml_as_it_was() -> None:
    assert Framework.from_yaml(FULL.to_yaml()) == FULL


def test_what_is_the_default_is_not_written() -> None:
    manifest = Framework("training", [Role("worker", 1, {"spec": {}})]).to_dict()
    assert manifest == {
        "apiVersion": "frameworkcontroller.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": "training"},
        "spec": {"taskRoles": [{"name": "worker", "taskNumber": 1, "task": {"pod": {"spec": {}}}}]},
    }


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*/framework.yaml")), ids=lambda file: file.parent.name)
def test_each_example_can_be_read(file: Path) -> None:
    found = next(one for one in documents(file.read_text(), file.name) if one["kind"] == "Framework")
    # One example is completed by the program that submits it.
    framework = Framework.from_dict({"metadata": {"name": "named"}} | found)
    assert Framework.from_yaml(framework.to_yaml()) == framework


BROKEN: dict[str, tuple[str, str]] = {
    "field": ("spec: {taskRole: []}", r"spec.taskRole: there is no such field; did you mean taskRoles\?"),
    "kind of number": (
        "spec: {taskRoles: [{name: a, taskNumber: x, task: {pod: {}}}]}",
        r"spec.taskRoles\[0\].taskNumber: Expected `int`, got `str`",
    ),
    "missing": ("spec: {taskRoles: [{name: a, task: {}}]}", r"spec.taskRoles\[0\].task.pod: is missing"),
    "policy": ("spec: {retryPolicy: {maxRetries: 1}}", "spec.retryPolicy.maxRetries: .* did you mean maxRetryCount"),
    "twice": ("spec: {}\nspec: {}", "line 5: the key 'spec' is given twice"),
    "tabs": ("spec:\n\t- a", "line 5: found character"),
    "no object": ("spec: 7", "spec: must be an object"),
}


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN)
def test_a_manifest_that_is_not_valid_is_refused_by_its_field_or_line(text: str, message: str) -> None:
    head = "apiVersion: frameworkcontroller.microsoft.com/v1\nkind: Framework\nmetadata: {name: a}\n"
    with pytest.raises(ManifestError, match=message):
        Framework.from_yaml(head + text)


def test_another_kind_is_no_framework() -> None:
    with pytest.raises(ManifestError, match="not v1 and Pod"):
        Framework.from_yaml("apiVersion: v1\nkind: Pod")


TEMPLATE = """
metadata:
  labels: {frameworkcontroller.microsoft.com/barrier: enabled}
  annotations: {barrier.frameworkcontroller.microsoft.com/preset: pytorch}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: my-image
    command: [python, train.py]
    env: [{name: EPOCHS, value: "3"}]
    resources:
      requests: {cpu: "2", memory: 4Gi, nvidia.com/gpu: 1}
      limits: {cpu: "2", memory: 4Gi, nvidia.com/gpu: 1}
    volumeMounts:
    - {name: volume0, mountPath: /data, readOnly: true}
    - {name: volume1, mountPath: /out}
    - {name: volume0, mountPath: /again}
  volumes:
  - {name: volume0, persistentVolumeClaim: {claimName: data}}
  - {name: volume1, persistentVolumeClaim: {claimName: out}}
  nodeSelector: {zone: a}
  serviceAccountName: trainer
"""


def test_a_template_has_what_was_asked_for() -> None:
    template = pod_template(
        image="my-image",
        command=["python", "train.py"],
        preset="pytorch",
        env={"EPOCHS": "3"},
        cpu="2",
        memory="4Gi",
        gpus=1,
        volumes=["data:/data:ro", "out:/out", "data:/again"],
        node_selector={"zone": "a"},
        service_account="trainer",
    )
    assert template == yaml.safe_load(TEMPLATE)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cpu": "two"}, "cpu: 'two' is not an amount"),
        ({"memory": "4GB"}, "memory: '4GB' is not an amount"),
        ({"volumes": ["data"]}, "volume: 'data' must be CLAIM:/path"),
        ({"env": {"1=2": "3"}}, "env: '1=2' is not the name"),
        ({"gpus": -1}, "gpus: must be 0 or more"),
    ],
    ids=["cpu", "memory", "volume", "env", "gpus"],
)
def test_a_template_that_cannot_be_made_names_the_argument(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        pod_template(image="my-image", **arguments)


def train(epochs: int, path: str = "$(HOME)") -> None:
    import json

    print(json.dumps([epochs, path]))


def test_a_function_of_a_cell_of_a_notebook_is_called_with_its_arguments() -> None:
    """IPython keeps the source of a cell where `inspect` looks for that of a file."""
    source, cell, names = "def train(epochs):\n    print(epochs)\n", "<ipython-input-3-f1c9>", dict[str, Any]()
    linecache.cache[cell] = (len(source), None, source.splitlines(keepends=True), cell)
    exec(compile(source, cell, "exec"), names)
    assert functions.command_of(names["train"], {"epochs": 3})[-1] == f"{source}\n\ntrain(epochs=3)\n"


def test_a_function_runs_as_a_script_of_its_own() -> None:
    command = functions.command_of(train, {"epochs": 3, "path": "$(HOME)"})
    # As the kubelet reads commands.
    script = command[-1].replace("$$", "$")
    done = subprocess.run([sys.executable, *command[1:-1], script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [3, "$(HOME)"]
    ast.parse(script)


def _nested() -> Callable[[], object]:
    captured = 7

    def inner() -> int:
        return captured

    return inner


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (lambda: None, {}, "must be defined by def"),
        (_nested(), {}, "uses captured of the function around it"),
        (print, {}, "must be defined by def"),
        (train, {"epochs": object()}, "argument epochs must be a number"),
    ],
    ids=["lambda", "closure", "builtin", "argument"],
)
def test_a_function_that_cannot_be_sent_is_refused(
    function: Callable[..., object], arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ManifestError, match=message):
        functions.command_of(function, arguments)
