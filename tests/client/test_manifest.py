"""Frameworks as they are written in Python, to and from YAML, and the files of this machine that travel with them."""

import base64
import io
import json
import linecache
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from frameworkclient import (
    Code,
    CompletionPolicy,
    Dependency,
    Framework,
    GangScheduling,
    ManifestError,
    RetryPolicy,
    Role,
    pod_template,
    read_code,
)
from frameworkclient.code import path_of
from frameworkclient.model import functions
from frameworkclient.model.code import MAX_FILES, MAX_UNPACKED, check_sizes
from frameworkclient.model.functions import with_packages

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
    gang_scheduling=GangScheduling("kubernetes", topology_key="zone"),
)


def test_a_framework_comes_back_from_yaml_as_it_was_and_another_kind_is_none() -> None:
    assert Framework.from_yaml(FULL.to_yaml()) == FULL
    with pytest.raises(ManifestError, match="not v1 and Pod"):
        Framework.from_yaml("apiVersion: v1\nkind: Pod")


def test_what_was_not_asked_for_is_not_written() -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}}
    assert pod_template(image="i") == template
    written = [{"name": "worker", "taskNumber": 1, "task": {"pod": template}}]
    assert Framework("training", [Role("worker", 1, template)]).to_dict()["spec"] == {"taskRoles": written}


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


WRONG: dict[str, dict[str, Any]] = {
    "cpu: 'two' is not an amount": {"cpu": "two"},
    "memory: '4GB' is not an amount": {"memory": "4GB"},
    "shm: '8GB' is not an amount": {"shm": "8GB"},
    "volume: 'data' must be CLAIM:/path": {"volumes": ["data"]},
    "env: '1=2' is not the name": {"env": {"1=2": "3"}},
    "gpus: must be 0 or more": {"gpus": -1},
    "toleration: 'a:Never' must be KEY or": {"tolerations": ["a:Never"]},
}


@pytest.mark.parametrize("message", WRONG)
def test_a_template_that_cannot_be_made_names_the_argument(message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        pod_template(image="my-image", **WRONG[message])


def train(epochs: int, path: str = "$(HOME)") -> None:
    import json

    print(json.dumps([epochs, path]))


def test_a_function_runs_as_a_script_of_its_own_also_one_of_a_cell_of_a_notebook() -> None:
    command = functions.command_of(train, {"epochs": 3, "path": "$(HOME)"})
    # As the kubelet reads commands.
    script = command[-1].replace("$$", "$")
    done = subprocess.run([sys.executable, *command[1:-1], script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [3, "$(HOME)"]
    # IPython keeps the source of a cell where `inspect` looks for that of a file.
    source, cell, names = "def train(epochs):\n    print(epochs)\n", "<ipython-input-3-f1c9>", dict[str, Any]()
    linecache.cache[cell] = (len(source), None, source.splitlines(keepends=True), cell)
    exec(compile(source, cell, "exec"), names)
    assert functions.command_of(names["train"], {"epochs": 3})[-1] == f"{source}\n\ntrain(epochs=3)\n"


def _nested() -> Callable[[], object]:
    captured = 7

    def inner() -> int:
        return captured

    return inner


UNSENDABLE: dict[str, tuple[Callable[..., object], dict[str, Any], str]] = {
    "lambda": (lambda: None, {}, "must be defined by def"),
    "closure": (_nested(), {}, "uses captured of the function around it"),
    "builtin": (print, {}, "must be defined by def"),
    "argument": (train, {"epochs": object()}, "argument epochs must be a number"),
}


@pytest.mark.parametrize("name", UNSENDABLE)
def test_a_function_that_cannot_be_sent_is_refused(name: str) -> None:
    function, arguments, message = UNSENDABLE[name]
    with pytest.raises(ManifestError, match=message):
        functions.command_of(function, arguments)


AT_HOME = (".env", ".env.local", "server.key", "deep/id_rsa", ".aws/credentials", "kubeconfig")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a job: code, data that git ignores, secrets, caches and links."""
    made = tmp_path / "job"
    for name in ("train.py", "lib/model.py", "data/large", "__pycache__/train.pyc", "run.sh", "ünicode name", *AT_HOME):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(name)
    (made / "run.sh").chmod(0o755)
    (made / ".gitignore").write_text("data/\n")
    (made / "linked.py").symlink_to("train.py")
    (made / "datasets").symlink_to(made / "data")
    return made


TRAVEL = {".gitignore", "lib/model.py", "linked.py", "run.sh", "train.py", "ünicode name"}


@pytest.mark.parametrize("repository", ["", "job", "."])
def test_what_git_ignores_secrets_and_links_to_folders_stay_at_home(folder: Path, repository: str) -> None:
    if repository:
        (folder / "gone.py").write_text("")
        git = ["git", "-C", str(folder)]
        subprocess.run([*git, "init", str(folder.parent / repository)], check=True, capture_output=True)
        subprocess.run([*git, "add", "train.py", "run.sh", "gone.py", ".env", "-f"], check=True)
        (folder / "gone.py").unlink()
    code = read_code(folder)
    assert set(code.sizes) == TRAVEL
    assert set(code.left_out) == {*AT_HOME, "datasets"}
    with tarfile.open(fileobj=io.BytesIO(code.archive)) as archive:
        assert {one.name: bool(one.mode & 0o100) for one in archive} == {name: name == "run.sh" for name in TRAVEL}
        linked = archive.extractfile("linked.py")
        assert linked is not None
        assert linked.read() == b"train.py"
    assert read_code(folder).archive == code.archive
    assert "6 files, " in str(code)
    assert "left out: .aws/credentials, .env" in str(code)


def test_without_git_all_travels_unless_something_is_ignored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(ManifestError, match=r"workdir .*/job: has a .gitignore, and there is no git to read it"):
        read_code(folder)
    (folder / ".gitignore").unlink()
    assert set(read_code(folder).sizes) == TRAVEL - {".gitignore"} | {"data/large"}


def test_single_files_lie_beside_those_of_the_folder_and_what_is_not_there_is_named(folder: Path) -> None:
    other = folder.parent / "requirements.txt"
    other.write_text("einops")
    code = read_code(folder / "lib", [folder / "lib" / "model.py", other])
    assert code.sizes == {"model.py": 12, "requirements.txt": 6}
    assert read_code(None, [folder / "data" / "large"]).sizes == {"large": 10}
    assert path_of(folder / "lib" / "model.py", folder) == "lib/model.py"
    with pytest.raises(ManifestError, match="workdir none: there is no such folder"):
        read_code("none")
    with pytest.raises(ManifestError, match=r"none\.py: No such file or directory"):
        read_code(None, ["none.py"])


def test_what_does_not_fit_names_the_largest_files_and_the_ways_out(folder: Path) -> None:
    (folder / "weights.bin").write_bytes(os.urandom(1_100_000))
    largest = r"1\.\d MiB compressed is more .* the largest are weights.bin \(1.0 MiB\), "
    with pytest.raises(ManifestError, match=largest):
        read_code(folder)
    with (folder / "weights.bin").open("wb") as file:
        file.truncate(MAX_UNPACKED + 1)
    with pytest.raises(ManifestError, match=r"7 files of 60.0 MiB is more .*: name in .gitignore .* or put the code"):
        read_code(folder)
    with pytest.raises(ManifestError, match=f"{MAX_FILES + 1} files of 0.0 KiB is more"):
        check_sizes({str(number): 0 for number in range(MAX_FILES + 1)})


def test_a_role_asks_the_injector_for_its_code_and_starts_where_it_is() -> None:
    code = Code.packed({"train.py": (b"print(1)", False)})
    role = Role.container("worker", 2, image="i", command=["python3", "train.py"], code=code)
    assert role.code is code
    assert role.pod["metadata"] == {
        "labels": {"frameworkcontroller.microsoft.com/barrier": "enabled"},
        "annotations": {"barrier.frameworkcontroller.microsoft.com/code": code.name},
    }
    assert role.pod["spec"]["containers"][0]["workingDir"] == "/mnt/frameworkcode"
    assert "code" not in role.to_dict()
    made = code.config_map({"uid": "u"})
    assert (made["metadata"]["name"], made["metadata"]["ownerReferences"]) == (code.name, [{"uid": "u"}])
    assert base64.b64decode(made["binaryData"]["code.tar.gz"]) == code.archive
    assert Code.packed({}).name != Code.packed({}).name


WHEEL = {
    "tiny.py": "X = 7",
    "tiny-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n",
    "tiny-1.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "tiny-1.dist-info/RECORD": "",
}


def test_packages_are_installed_before_a_command_that_then_takes_the_process(tmp_path: Path) -> None:
    """With a package of this folder, so that nothing is downloaded; the package is found, and so is its program."""
    package = tmp_path / "tiny-1-py3-none-any.whl"
    with zipfile.ZipFile(package, "w") as wheel:
        for name, text in WHEEL.items():
            wheel.writestr(name, text)
    command = with_packages([str(package)], [sys.executable, "-c", "import tiny; print(tiny.X)"])
    command[0], command[command.index("/tmp/frameworkpackages")] = sys.executable, str(tmp_path / "packages")
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr
    package.unlink()
    failed = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert (failed.returncode, failed.stderr.endswith("pip could not install the packages\n")) == (1, True)
    with pytest.raises(ManifestError, match="packages: need a command"):
        Role.container("worker", 1, image="i", packages=["einops"])
