"""The scripts as real shells run them: which ports and values they set, and what keeps standing."""

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from frameworkbarrier.files import environment as subject
from frameworkbarrier.files.variables import Variable
from localcluster import packages
from tests.barrier.files.written import files, read_env_file
from tests.barrier.gangs import ip, roster

RUN = "exec ./run env -0"
EACH_SCRIPT = pytest.mark.parametrize("script", [". ./injector.sh", ". ./presets.sh", RUN])
EACH_SHELL = pytest.mark.parametrize("shell", ["dash", "bash --posix", "bash", "busybox sh"])


@pytest.fixture(scope="module", autouse=True)
def busybox() -> None:
    """The shell of small images; dash and bash are everywhere."""
    packages.require(("busybox",))


def write(folder: Path, shape: dict[str, int], index: int = 0, /, **environ: str) -> Path:
    """Write the files for a worker of a gang."""
    for file in files(roster(shape), "worker", index, FB_OUTPUT_DIR=str(folder), **environ).values():
        (folder / file.name).write_bytes(file.data)
        (folder / file.name).chmod(file.mode)
    return folder


def variables(shell: str, folder: Path, script: str, **given: str) -> dict[str, str]:
    """The environment after a script, in a shell that has this one."""
    command = [*shell.split(), "-euc", f"{script}\nenv -0"]
    out = subprocess.check_output(command, cwd=folder, env={"PATH": "/usr/bin:/bin", **given})
    return dict(entry.split("=", 1) for entry in out.decode().split("\0") if entry)


@EACH_SHELL
def test_the_callers_ports_appear_in_the_addresses(shell: str, tmp_path: Path) -> None:
    """A line as users of Microsoft's barrier write it."""
    write(tmp_path, {"ps": 1, "worker": 2})
    found = variables(shell, tmp_path, "export FB_PS_PORT=4001 FB_WORKER_PORT=5001\n. ./injector.sh")
    assert {name: found[name] for name in found if name.startswith("FB_")} == {
        "FB_PS_ADDRESSES": f"{ip(1)}:4001",
        "FB_PS_IPS": ip(1),
        "FB_PS_PORT": "4001",
        "FB_WORKER_ADDRESSES": f"{ip(2)}:5001,{ip(3)}:5001",
        "FB_WORKER_IPS": f"{ip(2)},{ip(3)}",
        "FB_WORKER_PORT": "5001",
    }


@EACH_SHELL
@pytest.mark.parametrize(
    ("known", "before", "port"),
    [
        ({}, "", ""),
        ({"FB_PORTS": "worker=2222"}, "", "2222"),
        ({"FB_PORTS": "worker=2222"}, "FB_WORKER_PORT=7", "7"),
        ({}, "FB_WORKER_PORT='$(touch pwned)`touch pwned`'", "$(touch pwned)`touch pwned`"),
    ],
    ids=["none, under set -u", "a known one is the default", "the caller's", "a hostile one is not run"],
)
def test_addresses_have_the_port_that_is_set_or_known(
    shell: str, tmp_path: Path, known: dict[str, str], before: str, port: str
) -> None:
    found = variables(shell, write(tmp_path, {"worker": 2}, **known), f"{before}\n. ./injector.sh")
    assert found["FB_WORKER_ADDRESSES"] == f"{ip(1)}:{port},{ip(2)}:{port}"
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
@EACH_SHELL
def test_any_value_survives_a_shell_and_runs_nothing(tmp_path: Path, shell: str, value: str) -> None:
    script = subject.injector_script([], [Variable("X", value)], subject.OverflowFiles("/mnt"))
    (tmp_path / "injector.sh").write_text(script, newline="")
    assert variables(shell, tmp_path, ". ./injector.sh")["X"] == value
    assert [path.name for path in tmp_path.iterdir()] == ["injector.sh"]


@pytest.mark.parametrize("count", [2_000, 5_000, 10_000])
def test_in_a_large_gang_no_exported_value_exceeds_the_limits(count: int, tmp_path: Path) -> None:
    write(tmp_path, {"ps": 2, "worker": count}, 7, FB_PRESET="tensorflow")
    env = (tmp_path / "env").read_text()
    assert len(env) < 64 * 1024
    for found in (read_env_file(env), variables("dash", tmp_path, ". ./injector.sh")):
        assert all(len(value) <= 96 * 1024 for value in found.values())
        for name in ("FB_WORKER_IPS", "FB_WORKER_ADDRESSES"):
            text = found.get(name) or Path(found[f"{name}_FILE"]).read_text()
            assert len(text.split(",")) == count
        cluster = json.loads(found["TF_CONFIG"])["cluster"]
        worker = cluster["worker"]
        assert (worker["7"] if isinstance(worker, dict) else worker[7]) == f"{ip(10)}:2222"
        assert len(cluster["ps"]) == 2


# --- a value that the container has already keeps standing ------------------------------------------------------------

GANG = {"master": 1, "worker": 2}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The shared volume, with the files for worker 0 of a master and two workers."""
    return write(tmp_path, GANG, FB_PRESET="pytorch")


@EACH_SCRIPT
@EACH_SHELL
def test_a_value_that_is_set_wins_also_an_empty_one_and_the_others_come_from_the_preset(
    shell: str, script: str, folder: Path
) -> None:
    found = variables(shell, folder, script, MASTER_PORT="1234", WORLD_SIZE="")
    assert (found["MASTER_PORT"], found["WORLD_SIZE"]) == ("1234", "")
    assert (found["MASTER_ADDR"], found["RANK"]) == (ip(1), "1")


@EACH_SHELL
def test_a_value_of_the_shell_wins_and_reaches_the_program(shell: str, folder: Path) -> None:
    assert variables(shell, folder, "MASTER_PORT=1234\n. ./injector.sh")["MASTER_PORT"] == "1234"


@EACH_SCRIPT
@pytest.mark.parametrize("value", ["$(touch pwned)", "a'b\"c`d`\\", "x\ny,yes,tcp://", "*", ""])
def test_the_value_that_is_kept_is_neither_changed_nor_run(value: str, script: str, folder: Path) -> None:
    assert variables("dash", folder, script, MASTER_ADDR=value)["MASTER_ADDR"] == value
    assert not (folder / "pwned").exists()


@EACH_SCRIPT
@pytest.mark.parametrize("scheme", ["tcp", "udp", "sctp"])
def test_the_address_of_a_service_that_has_the_name_of_a_variable_is_no_value(
    scheme: str, script: str, folder: Path
) -> None:
    """A Service `master` gives each container of its namespace MASTER_PORT=tcp://10.0.0.1:80."""
    found = variables("dash", folder, script, MASTER_PORT=f"{scheme}://10.0.0.1:80", MASTER_ADDR="tcp://a:1")
    assert (found["MASTER_PORT"], found["MASTER_ADDR"]) == ("29500", "tcp://a:1")


@EACH_SHELL
def test_what_fb_variables_names_is_the_barriers_whatever_the_image_has_set(shell: str, folder: Path) -> None:
    found = variables(shell, folder, ". ./injector.sh", FB_VARIABLES="RANK,MASTER_ADDR", RANK="9", WORLD_SIZE="9")
    # MASTER_PORT was in no list, but nobody had set it.
    assert (found["RANK"], found["WORLD_SIZE"], found["MASTER_PORT"]) == ("1", "9", "29500")


@EACH_SHELL
def test_a_script_that_is_sourced_again_brings_its_own_variables_up_to_date(shell: str, folder: Path) -> None:
    old = (folder / "presets.sh").read_text().replace(ip(1), "10.99.99.99")
    (folder / "old.sh").write_text(old)
    script = '. ./old.sh\ntest "$MASTER_ADDR" = 10.99.99.99\n. ./injector.sh\n. ./injector.sh'
    found = variables(shell, folder, script, MASTER_PORT="1234")
    assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == (ip(1), "1234")
    names = found["FB_VARIABLES"].split(",")
    assert len(names) == len(set(names))
    assert "MASTER_PORT" not in names
    # A child process that sources the script brings its variables up to date, too.
    assert variables(shell, folder, ". ./injector.sh", **{**found, "MASTER_ADDR": "old"})["MASTER_ADDR"] == ip(1)


@EACH_SHELL
def test_the_scripts_leave_nothing_of_their_own_behind(shell: str, folder: Path) -> None:
    script = ". ./injector.sh\nif command -v fb_export; then exit 1; fi\necho ${fb_value-none}${fb_is_set-none} >&2"
    found = set(variables(shell, folder, script)) - set(variables(shell, folder, ":"))
    assert found == {line.partition("=")[0] for line in (folder / "env").read_text().splitlines()} | {"FB_VARIABLES"}


@EACH_SHELL
def test_run_leaves_it_at_the_presets_where_the_injector_says_so(shell: str, folder: Path) -> None:
    found = variables(shell, folder, RUN, FB_RUN="presets", FB_VARIABLES="RANK", RANK="9")
    assert found["RANK"] == "1"
    assert [name for name in found if name.startswith("FB_")] == ["FB_VARIABLES"]
    # Which does not concern the scripts that the command runs itself.
    assert "FB_WORKER_IPS" in variables(shell, folder, RUN)
    assert "FB_WORKER_IPS" in variables(shell, folder, "exec ./run ./run env -0", FB_RUN="presets")


@pytest.mark.parametrize("preset", ["tensorflow", "pytorch", "jax", "mpi"])
def test_run_sets_the_same_for_the_presets_as_references_to_the_file_env(preset: str, folder: Path) -> None:
    write(folder, GANG, FB_PRESET=preset)
    env = dict(line.split("=", 1) for line in (folder / "env").read_text().splitlines())
    of_file = {name: value[1:-1] for name, value in env.items() if not name.startswith("FB_")}
    found = variables("dash", folder, RUN, FB_RUN="presets", FB_VARIABLES=",".join(of_file))
    assert {name: found[name] for name in found if name in of_file} == of_file
    assert set(found) - set(of_file) <= {"PATH", "FB_VARIABLES", "PWD", "OLDPWD", "SHLVL", "_"}
