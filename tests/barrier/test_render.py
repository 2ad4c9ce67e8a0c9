"""The files as applications read them: by real shells, and by the rules of the kubelet's env files."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from barrier.gangs import environment, ip, roster, uid
from frameworkbarrier import environment as subject
from frameworkbarrier import render, settings
from frameworkbarrier import roster as roster_module
from frameworkbarrier.errors import SettingsError
from frameworkbarrier.gang import Me, Open, decide
from frameworkbarrier.output import File
from frameworkbarrier.surroundings import Surroundings
from frameworkbarrier.variables import Variable
from localcluster import packages
from localcluster.progress import Lines

SHELLS = ["dash", "bash", "busybox sh"]


@pytest.fixture(scope="module", autouse=True)
def busybox() -> None:
    """The shell of small images; dash and bash are everywhere."""
    packages.require(("busybox",), Lines())


def files(
    shape: dict[str, int], role: str, index: int, folder: str = "/mnt/frameworkbarrier", **environ: str
) -> dict[str, File]:
    text = json.dumps(roster(shape))
    opened = decide(roster_module.decode(text), Me(role, index, uid(role, index)))
    assert isinstance(opened, Open)
    read = settings.parse(environment(role, index, FB_OUTPUT_DIR=folder, **environ))
    around = Surroundings("127.0.0.1\tlocalhost\n10.9.9.9\tme\n", "me")
    return {file.name: file for file in render.render(opened, read, text, around).files}


def source(shell: str, script: bytes, command: str, path: Path, before: str = "") -> str:
    (path / "injector.sh").write_bytes(script)
    return subprocess.run(
        [*shell.split(), "-euc", f"{before}\n. ./injector.sh\n{command}"],
        cwd=path,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin"},
    ).stdout


def read_env_file(text: str) -> dict[str, str]:
    """The kubelet's rules of 1.35: NAME='value', nothing else, no line of 64 KiB."""
    values = {}
    while text:
        name, rest = text.split("='", 1)
        value, text = rest.split("'\n", 1)
        assert name.replace("_", "").isalnum()
        assert name.isupper()
        values[name] = value
    return values


@pytest.mark.parametrize("shell", SHELLS)
def test_the_callers_ports_appear_in_the_addresses(shell: str, tmp_path: Path) -> None:
    """A line as users of Microsoft's barrier write it."""
    script = files({"ps": 1, "worker": 2}, "worker", 0)["injector.sh"].data
    before = "export FB_PS_PORT=4001 FB_WORKER_PORT=5001"
    out = source(shell, script, "env | grep ^FB_ | sort", tmp_path, before)
    assert out.splitlines() == [
        f"FB_PS_ADDRESSES={ip(1)}:4001",
        f"FB_PS_IPS={ip(1)}",
        "FB_PS_PORT=4001",
        f"FB_WORKER_ADDRESSES={ip(2)}:5001,{ip(3)}:5001",
        f"FB_WORKER_IPS={ip(2)},{ip(3)}",
        "FB_WORKER_PORT=5001",
    ]


@pytest.mark.parametrize("shell", SHELLS)
def test_without_any_port_the_script_still_runs_under_set_u(shell: str, tmp_path: Path) -> None:
    out = source(shell, files({"ps": 2}, "ps", 0)["injector.sh"].data, 'echo "$FB_PS_ADDRESSES"', tmp_path)
    assert out == f"{ip(1)}:,{ip(2)}:\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_known_ports_are_defaults_that_the_caller_can_change(shell: str, tmp_path: Path) -> None:
    script = files({"ps": 1, "worker": 1}, "ps", 0, FB_PORTS="ps=2222")["injector.sh"].data
    assert source(shell, script, 'echo "$FB_PS_ADDRESSES"', tmp_path) == f"{ip(1)}:2222\n"
    assert source(shell, script, 'echo "$FB_PS_ADDRESSES"', tmp_path, "FB_PS_PORT=7") == f"{ip(1)}:7\n"


HOSTILE = [
    "$(touch pwned)",
    "`touch pwned`",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "a\nb",
    "~",
    "!!",
    "\\",
    "é\t*?[x]",
]


@pytest.mark.parametrize("shell", SHELLS)
def test_hostile_ports_of_the_caller_are_not_run(shell: str, tmp_path: Path) -> None:
    script = files({"ps": 1}, "ps", 0)["injector.sh"].data
    before = "FB_PS_PORT='$(touch pwned)`touch pwned`'"
    out = source(shell, script, 'printf %s "$FB_PS_ADDRESSES"', tmp_path, before)
    assert out == f"{ip(1)}:$(touch pwned)`touch pwned`"
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("value", HOSTILE)
def test_a_hostile_value_arrives_as_it_is_and_runs_nothing(shell: str, value: str, tmp_path: Path) -> None:
    script = subject.injector_script([], [], [Variable("X", value)], subject.Spill("/mnt")).encode()
    assert source(shell, script, 'printf %s "$X"', tmp_path) == value
    assert [path.name for path in tmp_path.iterdir()] == ["injector.sh"]


@hypothesis_settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=40))
@example("'")
@example("\r\n")
@pytest.mark.parametrize("shell", SHELLS)
def test_any_value_survives_a_shell(tmp_path: Path, shell: str, value: str) -> None:
    script = subject.injector_script([], [], [Variable("X", value)], subject.Spill("/mnt")).encode()
    (tmp_path / "injector.sh").write_bytes(script)
    out = subprocess.run(
        [*shell.split(), "-euc", '. ./injector.sh; printf %s "$X"'], cwd=tmp_path, capture_output=True, check=True
    ).stdout
    assert out.decode() == value


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0")))
@example("'")
@example("a\r\nb")
@example("a\nb=c")
def test_any_value_survives_an_env_file_or_lies_in_a_file_that_is_named(value: str) -> None:
    spill = subject.Spill("/mnt")
    values = read_env_file(subject.env_file([], [], [Variable("X", value), Variable("Y", "1")], spill, "quoted"))
    if "X" in values:
        assert values == {"X": value, "Y": "1"}
    else:
        assert values == {"X_FILE": "/mnt/X", "Y": "1"}
        assert spill.files == {"X": value}


def test_env_holds_the_presets_variables_and_the_lists() -> None:
    values = read_env_file(files({"chief": 1, "worker": 2}, "chief", 0, FB_PRESET="tensorflow")["env"].data.decode())
    assert json.loads(values["TF_CONFIG"])["task"] == {"type": "chief", "index": 0}
    assert values["FB_WORKER_IPS"] == f"{ip(2)},{ip(3)}"
    assert values["FB_WORKER_ADDRESSES"] == f"{ip(2)}:2222,{ip(3)}:2222"
    assert values["FB_CHIEF_PORT"] == "2222"


def test_plain_syntax_has_no_quotes() -> None:
    made = files({"worker": 2}, "worker", 0, FB_ENV_SYNTAX="plain")["env"].data.decode()
    assert made == f"FB_WORKER_IPS={ip(1)},{ip(2)}\n"


def test_plain_syntax_carries_tf_config_as_it_stands() -> None:
    made = files({"worker": 2}, "worker", 0, FB_PRESET="tensorflow", FB_ENV_SYNTAX="plain")["env"].data.decode()
    (line,) = [line for line in made.splitlines() if line.startswith("TF_CONFIG=")]
    assert json.loads(line.removeprefix("TF_CONFIG="))["task"] == {"type": "worker", "index": 0}


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ('it\'s "here" # all', True),
        ("x" * 32 * 1024, True),
        ("x" * (32 * 1024 + 1), False),
        (" a", False),
        ("a\t", False),
        ("a\nb", False),
        ("a\r\nb", False),
        ("a\\", False),
    ],
    ids=["quotes", "32 KiB", "more", "blank before", "blank after", "newline", "CR LF", "backslash at the end"],
)
def test_a_value_that_plain_syntax_cannot_hold_lies_in_a_file(value: str, *, fits: bool) -> None:
    """As the parser of Kubernetes 1.34 reads it: the line up to its end, without the blanks around it."""
    spill = subject.Spill("/mnt")
    line = subject.env_file([], [], [Variable("X", value)], spill, "plain")
    assert line == (f"X={value}\n" if fits else "X_FILE=/mnt/X\n")
    assert spill.files == ({} if fits else {"X": value})


@pytest.mark.parametrize(
    ("role", "index", "task"),
    [("chief", 0, {"type": "chief", "index": 0}), ("evaluator", 0, {"type": "evaluator", "index": 0})],
)
def test_tf_config_leaves_the_evaluator_and_strangers_out_of_the_cluster(
    role: str, index: int, task: dict[str, Any]
) -> None:
    shape = {"chief": 1, "ps": 1, "evaluator": 1, "tensorboard": 1}
    values = read_env_file(files(shape, role, index, FB_PRESET="tensorflow", FB_PORTS="ps=9")["env"].data.decode())
    assert json.loads(values["TF_CONFIG"]) == {
        "cluster": {"chief": [f"{ip(1)}:2222"], "ps": [f"{ip(2)}:9"]},
        "task": task,
    }


def test_hosts_keeps_the_containers_own_and_names_every_task() -> None:
    assert files({"chief": 1, "worker": 1}, "worker", 0)["hosts"].data.decode().splitlines() == [
        "127.0.0.1\tlocalhost",
        "10.9.9.9\tme",
        "# Tasks of the gang, by the barrier.",
        f"{ip(1)}\tmnist-chief-0 chief-0 mnist-chief-0.lab",
        f"{ip(2)}\tmnist-worker-0 worker-0 mnist-worker-0.lab me",
    ]


def test_the_roster_is_written_as_it_was_read() -> None:
    made = files({"worker": 1}, "worker", 0)
    assert json.loads(made["roster.json"].data) == roster({"worker": 1})
    assert made["generation"].data == b"1\n"
    assert list(made)[-1] == "generation"


@pytest.mark.parametrize("count", [2_000, 5_000, 10_000])
def test_in_a_large_gang_no_exported_value_exceeds_the_limits(count: int, tmp_path: Path) -> None:
    made = files({"ps": 2, "worker": count}, "worker", 7, str(tmp_path), FB_PRESET="tensorflow")
    for name, file in made.items():
        (tmp_path / name).write_bytes(file.data)
    assert len(made["env"].data) < 64 * 1024
    values = read_env_file(made["env"].data.decode())
    out = subprocess.run(
        ["dash", "-euc", ". ./injector.sh; env -0"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    exported = dict(entry.split("=", 1) for entry in out.split("\0") if entry)
    for found in (values, exported):
        assert all(len(value) <= 96 * 1024 for value in found.values())
        for name in ("FB_WORKER_IPS", "FB_WORKER_ADDRESSES"):
            text = found.get(name) or Path(found[f"{name}_FILE"]).read_text()
            assert len(text.split(",")) == count
        config = json.loads(found["TF_CONFIG"])
        worker = config["cluster"]["worker"]
        assert (worker["7"] if isinstance(worker, dict) else worker[7]) == f"{ip(10)}:2222"
        assert len(config["cluster"]["ps"]) == 2


def test_one_warning_names_each_value_that_went_to_a_file(tmp_path: Path) -> None:
    text = json.dumps(roster({"worker": 10_000}))
    opened = decide(roster_module.decode(text), Me("worker", 0, uid("worker", 0)))
    assert isinstance(opened, Open)
    rendered = render.render(opened, settings.parse(environment()), text, Surroundings())
    assert [warning.split(" ")[0] for warning in rendered.warnings] == ["FB_WORKER_IPS", "FB_WORKER_ADDRESSES"]


def test_a_port_for_a_role_that_is_not_there_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"FB_PORTS.*'driver'.*ps, worker"):
        files({"ps": 1, "worker": 1}, "ps", 0, FB_PORTS="driver=1")


def test_of_many_roles_the_presets_variables_stay_in_env_and_only_what_is_long_is_spilled() -> None:
    shape = {f"role{number}": 1 for number in range(300)} | {"worker": 2}
    made = files(shape, "worker", 1, FB_PRESET="pytorch")
    values = read_env_file(made["env"].data.decode())
    assert values["RANK"] == "1"
    assert values["MASTER_PORT"] == "29500"
    assert not [name for name in values if name.endswith("_FILE")]
    assert len(made["env"].data) <= 60 * 1024


def test_a_shortened_value_is_said() -> None:
    spill = subject.Spill("/folder")
    long = Variable("TF_CONFIG", "x" * 100, short="y")
    assert spill.fit(long, 10, "env").value == "y"
    assert spill.warnings == ["TF_CONFIG (100 bytes) does not fit into env: shortened"]
