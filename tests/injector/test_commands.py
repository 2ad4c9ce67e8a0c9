"""The commands `render` and `audit`, as a person runs them."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import yaml

from frameworkinjector import commands
from frameworkinjector.config import Config, EnvFiles
from localcluster.waiting import patience
from tests.injector.golden_pods import GOLDEN, INJECTED, REFUSED, config_of, env_files_of, injected_of, pod_of
from tests.injector.reviews import CONFIG
from tests.support.rows import each

if TYPE_CHECKING:
    from pathlib import Path


def render(
    file: Path, env_files: EnvFiles = EnvFiles.QUOTED, config: Config = CONFIG, *, as_json: bool = False
) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = commands.render(file, config, env_files, as_json=as_json, out=out, err=err)
    return code, out.getvalue(), err.getvalue()


@each("case", INJECTED)
def test_render_prints_what_the_webhook_would_make_of_the_pod(case: str, tmp_path: Path) -> None:
    pod = pod_of(case)
    # The golden outcomes are those of the namespace demo, which a file must name.
    pod["metadata"]["namespace"] = "demo"
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump(pod))
    golden = injected_of(case)
    golden["metadata"]["namespace"] = "demo"
    code, out, err = render(file, env_files_of(case))
    assert (code, yaml.safe_load(out)) == (0, golden)
    assert err.startswith("# The barrier was added.\n")
    code, out, _ = render(file, env_files_of(case), as_json=True)
    assert (code, json.loads(out)) == (0, golden)


@each("case", REFUSED)
def test_render_says_why_a_pod_would_be_refused(case: str) -> None:
    code, out, err = render(GOLDEN / case / "pod.yaml", env_files_of(case), config_of(case))
    sentence = (GOLDEN / case / "refused.txt").read_text()
    if case in {"refused-malformed", "refused-no-containers"}:
        assert (code, out) == (2, "")
    else:
        assert (code, out, err) == (1, "", f"frameworkinjector: refused: {sentence}")


def job(template: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": {"template": template}}


def test_render_finds_the_template_of_a_job(tmp_path: Path) -> None:
    pod = pod_of("job-selector")
    file = tmp_path / "job.json"
    file.write_text(json.dumps(job({"metadata": pod["metadata"], "spec": pod["spec"]})))
    code, out, _ = render(file)
    assert code == 0
    (barrier,) = yaml.safe_load(out)["spec"]["template"]["spec"]["initContainers"]
    assert barrier["name"] == "frameworkbarrier"


@each(
    "text, expected",
    [
        ("kind: ConfigMap", "ConfigMap holds no Pod"),
        ("- a", "not a Kubernetes object"),
        ("a: [", "neither JSON nor YAML"),
        ("spec: {containers: {a: b}}", "the Pod is malformed"),
        ("spec: {containers: [{name: 5}]}", "the Pod is malformed"),
    ],
)
def test_render_says_what_is_wrong_with_a_file(text: str, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    code, out, err = render(file)
    assert (code, out) == (2, "")
    assert expected in err
    assert err.count("\n") == 1 or "YAML" in err


def test_render_says_that_a_file_is_missing(tmp_path: Path) -> None:
    code, _, err = render(tmp_path / "none.yaml")
    assert code == 2
    assert "none.yaml" in err


def run(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "frameworkinjector", *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=patience(30))


def test_render_reads_standard_input() -> None:
    done = run("render", "-f", "-", text=(GOLDEN / "preset-tensorflow-file" / "pod.yaml").read_text())
    assert done.returncode == 0
    assert yaml.safe_load(done.stdout)["spec"]["initContainers"][0]["name"] == "frameworkbarrier"


@each(
    "arguments, expected",
    [
        (["serve", "--env-files=maybe"], "'maybe' is not one of none, plain, quoted"),
        (["--port=70000"], "'70000' is not a port"),
        (["--certificate-days=0"], "'0' is not a positive number"),
        (["--tls-cert-file=x"], "--tls-cert-file and --tls-key-file are needed together"),
        (["--namespace=x", "--kubeconfig=/nonexistent"], "/nonexistent"),
        (["--namespace=x"], "KUBERNETES_SERVICE_HOST is not set"),
        (["serve", "--barrier-pull-policy=Sometimes"], "'Sometimes' is not one of Always, IfNotPresent, Never"),
        (["render"], "-f/--filename"),
    ],
)
def test_a_usage_error_is_one_line_on_stderr(arguments: list[str], expected: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
