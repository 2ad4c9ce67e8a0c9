"""The files as applications read them: by real shells, and by the rules of the kubelet's env files."""

import json
import subprocess
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from frameworkbarrier import settings
from frameworkbarrier.errors import SettingsError
from frameworkbarrier.files import environment as subject
from frameworkbarrier.files import render
from frameworkbarrier.files.container import Container
from frameworkbarrier.files.output import File
from frameworkbarrier.files.variables import Variable
from localcluster import packages
from tests.barrier.gangs import environment, ip, released, roster

SHELLS = ["dash", "bash", "busybox sh"]


@pytest.fixture(scope="module", autouse=True)
def busybox() -> None:
    """The shell of small images; dash and bash are everywhere."""
    packages.require(("busybox",))


def files(
    shape: dict[str, int], role: str, index: int, folder: str = "/mnt/frameworkbarrier", **environ: str
) -> dict[str, File]:
    read = settings.parse(environment(role, index, FB_OUTPUT_DIR=folder, **environ))
    container = Container("127.0.0.1\tlocalhost\n10.9.9.9\tme\n", "me")
    return {file.name: file for file in render.render(released(roster(shape), role, index), read, container).files}


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


@pytest.mark.parametrize("shell", SHELLS)
def test_hostile_ports_of_the_caller_are_not_run(shell: str, tmp_path: Path) -> None:
    script = files({"ps": 1}, "ps", 0)["injector.sh"].data
    before = "FB_PS_PORT='$(touch pwned)`touch pwned`'"
    out = source(shell, script, 'printf %s "$FB_PS_ADDRESSES"', tmp_path, before)
    assert out == f"{ip(1)}:$(touch pwned)`touch pwned`"
    assert not (tmp_path / "pwned").exists()


@hypothesis_settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=40))
@example("'")
@example("\r\n")
@example("$(touch pwned)")
@example("`touch pwned`")
@example("'; touch pwned; '")
@example('"; touch pwned; "')
@example("a\nb")
@example("~")
@example("!!")
@example("\\")
@example("é\t*?[x]")
@pytest.mark.parametrize("shell", SHELLS)
def test_any_value_survives_a_shell_and_runs_nothing(tmp_path: Path, shell: str, value: str) -> None:
    script = subject.injector_script([], [Variable("X", value)], subject.OverflowFiles("/mnt")).encode()
    (tmp_path / "injector.sh").write_bytes(script)
    out = subprocess.run(
        [*shell.split(), "-euc", '. ./injector.sh; printf %s "$X"'], cwd=tmp_path, capture_output=True, check=True
    ).stdout
    assert out.decode() == value
    assert [path.name for path in tmp_path.iterdir()] == ["injector.sh"]


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0")))
@example("'")
@example("a\r\nb")
@example("a\nb=c")
def test_any_value_survives_an_env_file_or_lies_in_a_file_that_is_named(value: str) -> None:
    overflow = subject.OverflowFiles("/mnt")
    wanted = [Variable("X", value), Variable("Y", "1")]
    budget = subject.Budget(wanted, overflow, "quoted")
    values = read_env_file(subject.env_file(list(map(budget.take, wanted)), "quoted"))
    if "X" in values:
        assert values == {"X": value, "Y": "1"}
    else:
        assert values == {"X_FILE": "/mnt/X", "Y": "1"}
        assert overflow.files == {"X": value}


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
    overflow = subject.OverflowFiles("/mnt")
    wanted = Variable("X", value)
    line = subject.env_file([subject.Budget([wanted], overflow, "plain").take(wanted)], "plain")
    assert line == (f"X={value}\n" if fits else "X_FILE=/mnt/X\n")
    assert overflow.files == ({} if fits else {"X": value})


@pytest.mark.parametrize("role", ["chief", "evaluator"])
def test_tf_config_leaves_the_evaluator_and_strangers_out_of_the_cluster(role: str) -> None:
    shape = {"chief": 1, "ps": 1, "evaluator": 1, "tensorboard": 1}
    assert config_of(files(shape, role, 0, FB_PRESET="tensorflow", FB_PORTS="ps=9")) == {
        "cluster": {"chief": [f"{ip(1)}:2222"], "ps": [f"{ip(2)}:9"]},
        "task": {"type": role, "index": 0},
    }


def config_of(files: dict[str, File]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read_env_file(files["env"].data.decode())["TF_CONFIG"])
    return found


def test_roles_of_other_names_are_what_the_settings_say_to_tensorflow() -> None:
    environ = {"FB_PRESET": "tensorflow", "FB_TF_ROLES": "trainer=worker,server=ps"}
    assert config_of(files({"server": 1, "trainer": 2}, "trainer", 1, **environ)) == {
        "cluster": {"ps": [f"{ip(1)}:2222"], "worker": [f"{ip(2)}:2222", f"{ip(3)}:2222"]},
        "task": {"type": "worker", "index": 1},
    }


@pytest.mark.parametrize(
    "shape", [{"trainer": 2}, {"ps": 1, "trainer": 2}, {"evaluator": 1, "worker": 0, "trainer": 1}]
)
def test_a_gang_in_which_nobody_would_train_for_tensorflow_is_refused_with_advice(shape: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match=r"preset tensorflow: none of the roles .*FB_TF_ROLES=trainer=worker"):
        files(shape, "trainer", 0, FB_PRESET="tensorflow")


@pytest.mark.parametrize(
    ("tf_roles", "says"),
    [
        ("driver=worker", "there is no role 'driver'"),
        ("trainer=worker", "trainer=worker, but worker is the worker too"),
    ],
)
def test_roles_for_tensorflow_that_do_not_fit_the_gang_are_refused(tf_roles: str, says: str) -> None:
    with pytest.raises(SettingsError, match=f"FB_TF_ROLES: {says}"):
        files({"worker": 1, "trainer": 1}, "trainer", 0, FB_PRESET="tensorflow", FB_TF_ROLES=tf_roles)


@pytest.mark.parametrize(("chief", "count"), [(1, 4_000), (0, 10_000)])
def test_workers_without_ps_always_learn_of_each_other(chief: int, count: int) -> None:
    """A sparse form would let each of them believe that it is alone."""
    made = files({"chief": chief, "worker": count}, "worker", 7, FB_PRESET="tensorflow")
    values = read_env_file(made["env"].data.decode())
    assert "TF_CONFIG" not in values
    assert values["TF_CONFIG_FILE"] == "/mnt/frameworkbarrier/TF_CONFIG"
    assert len(json.loads(made["TF_CONFIG"].data)["cluster"]["worker"]) == count
    assert ("TF_CONFIG_FILE" in made["injector.sh"].data.decode()) is (count == 10_000)


@pytest.mark.parametrize(("nproc", "each"), [("", "8"), ("1", "1"), ("gpu", "gpu")])
@pytest.mark.parametrize("preset", ["pytorch", "paddle"])
def test_a_launcher_starts_a_process_for_each_gpu_unless_it_is_told_otherwise(
    preset: str, nproc: str, each: str
) -> None:
    document = roster({"worker": 2})
    document["taskRoles"][0]["gpus"] = 8
    read = settings.parse(environment(FB_PRESET=preset, FB_NPROC_PER_NODE=nproc))
    rendered = render.render(released(document), read, Container())
    values = read_env_file(next(file for file in rendered.files if file.name == "env").data.decode())
    assert values.get("PET_NPROC_PER_NODE", values.get("PADDLE_NPROC_PER_NODE", "gpu")) == each
    # A program without a launcher is one process.
    assert values.get("WORLD_SIZE", "2") == "2"


@pytest.mark.parametrize(("nproc", "world"), [("1", "2"), ("8", "16"), ("auto", None), ("gpu", None), ("cpu", None)])
def test_a_world_size_that_only_torchrun_can_know_is_left_out_and_this_is_said(nproc: str, world: str | None) -> None:
    read = settings.parse(environment(FB_PRESET="pytorch", FB_NPROC_PER_NODE=nproc))
    rendered = render.render(released(roster({"worker": 2})), read, Container())
    values = read_env_file(next(file for file in rendered.files if file.name == "env").data.decode())
    assert values.get("WORLD_SIZE") == world
    assert (values["PET_NNODES"], values["PET_NPROC_PER_NODE"], values["RANK"]) == ("2", nproc, "0")
    assert [warning.split(":")[0] for warning in rendered.warnings] == ([] if world else ["WORLD_SIZE is not set"])


def ranks_of(shape: dict[str, int], role: str, index: int, **environ: str) -> tuple[str, str | None, str]:
    values = read_env_file(files(shape, role, index, FB_PRESET="pytorch", **environ)["env"].data.decode())
    return values["WORLD_SIZE"], values.get("RANK"), values["MASTER_ADDR"]


def test_a_single_role_of_any_name_has_the_ranks() -> None:
    assert ranks_of({"trainer": 3, "spare": 0}, "trainer", 2) == ("3", "2", ip(1))


@pytest.mark.parametrize("preset", ["pytorch", "jax"])
def test_of_several_roles_without_master_or_worker_nobody_guesses_the_ranks(preset: str) -> None:
    with pytest.raises(SettingsError, match=rf"preset {preset}: .* learner, actor .*FB_RANK_ROLES=learner,actor"):
        files({"learner": 1, "actor": 2}, "actor", 0, FB_PRESET=preset)


def test_the_roles_with_ranks_are_those_of_the_settings_in_their_order() -> None:
    shape = {"actor": 2, "learner": 1, "worker": 1}
    assert ranks_of(shape, "actor", 1, FB_RANK_ROLES="learner,actor") == ("3", "2", ip(3))
    assert ranks_of(shape, "worker", 0, FB_RANK_ROLES="learner,actor") == ("3", None, ip(3))


@pytest.mark.parametrize(("named", "says"), [("driver", "there is no role 'driver'"), ("worker", "have no Tasks")])
def test_roles_with_ranks_that_do_not_fit_the_gang_are_refused(named: str, says: str) -> None:
    with pytest.raises(SettingsError, match=f"FB_RANK_ROLES: .*{says}"):
        ranks_of({"worker": 0, "trainer": 1}, "trainer", 0, FB_RANK_ROLES=named)


@pytest.mark.parametrize(
    ("shape", "environ", "hosts"),
    [
        ({"launcher": 1, "worker": 2}, {}, {2: 1, 3: 1}),
        ({"launcher": 1, "worker": 2}, {"FB_SLOTS": "8"}, {2: 8, 3: 8}),
        ({"launcher": 1, "worker": 2}, {"FB_SLOTS": "launcher=1,worker=8"}, {1: 1, 2: 8, 3: 8}),
        ({"launcher": 1, "worker": 2}, {"FB_SLOTS": "launcher=2"}, {1: 2}),
        ({"launcher": 1, "worker": 2}, {"FB_RUN_LAUNCHER_AS_WORKER": "true"}, {1: 1, 2: 1, 3: 1}),
        ({"launcher": 1, "worker": 2}, {"FB_RUN_LAUNCHER_AS_WORKER": "true", "FB_SLOTS": "worker=2"}, {2: 2, 3: 2}),
        ({"launcher": 2, "worker": 0}, {}, {1: 1, 2: 1}),
        ({"master": 1, "worker": 1}, {}, {1: 1, 2: 1}),
    ],
)
def test_a_launcher_has_no_slots_unless_the_settings_say_so_or_nobody_else_has(
    shape: dict[str, int], environ: dict[str, str], hosts: dict[int, int]
) -> None:
    made = files(shape, next(iter(shape)), 0, FB_PRESET="mpi", **environ)
    assert made["hostfile"].data.decode() == "".join(f"{ip(number)} slots={slots}\n" for number, slots in hosts.items())
    assert made["hostfile.mpich"].data.decode() == "".join(f"{ip(number)}:{slots}\n" for number, slots in hosts.items())


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


def test_a_shortened_value_is_reported() -> None:
    overflow = subject.OverflowFiles("/folder")
    long = Variable("TF_CONFIG", "x" * 100, short="y")
    assert overflow.fit(long, 10, "env").value == "y"
    assert overflow.warnings == ["TF_CONFIG (100 bytes) does not fit into env: shortened"]


def test_several_presets_of_a_large_gang_take_little_more_memory_than_one() -> None:
    gang = released(roster({"worker": 3000}), "worker", 0)

    def peak(presets: str) -> int:
        read = settings.parse(environment("worker", 0, FB_PRESET=presets))
        container = Container("127.0.0.1\tlocalhost\n", "me")
        render.render(gang, read, container)  # what is compiled and kept once does not count
        tracemalloc.start()
        try:
            render.render(gang, read, container)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak("pytorch,jax,mpi") < 1.5 * peak("pytorch")
