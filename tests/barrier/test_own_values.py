"""A value that the container has already keeps standing, whichever script sets the variables of the presets."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from frameworkbarrier import settings
from frameworkbarrier.files import render
from frameworkbarrier.files.container import Container
from localcluster import packages
from tests.barrier.gangs import environment, ip, released, roster

SHELLS = ["dash", "bash --posix", "bash", "busybox sh"]
GANG = {"master": 1, "worker": 2}


@pytest.fixture(scope="module", autouse=True)
def busybox() -> None:
    """The shell of small images; dash and bash are everywhere."""
    packages.require(("busybox",))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, 1)
    return tmp_path


def write(folder: Path, generation: int, preset: str = "pytorch") -> None:
    read = settings.parse(environment("worker", 0, FB_OUTPUT_DIR=str(folder), FB_PRESET=preset))
    gang = released(roster(GANG, generation=generation), "worker", 0)
    for file in render.render(gang, read, Container()).files:
        (folder / file.name).write_bytes(file.data)
        (folder / file.name).chmod(file.mode)


def variables(shell: str, folder: Path, script: str, **given: str) -> dict[str, str]:
    out = subprocess.run(
        [*shell.split(), "-euc", f"{script}\nenv -0"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", **given},
    ).stdout
    return dict(entry.split("=", 1) for entry in out.split("\0") if entry)


def by_run(shell: str, folder: Path, **given: str) -> dict[str, str]:
    return variables(shell, folder, "exec ./run env -0", **given)


EACH_SCRIPT = pytest.mark.parametrize("script", [". ./injector.sh", ". ./presets.sh", "exec ./run env -0"])
EACH_SHELL = pytest.mark.parametrize("shell", SHELLS)


@EACH_SCRIPT
@EACH_SHELL
def test_a_value_that_is_set_wins_and_the_others_come_from_the_preset(shell: str, script: str, folder: Path) -> None:
    found = variables(shell, folder, script, MASTER_PORT="1234")
    assert (found["MASTER_PORT"], found["MASTER_ADDR"], found["RANK"]) == ("1234", ip(1), "1")


@EACH_SCRIPT
@EACH_SHELL
def test_an_empty_value_is_a_value(shell: str, script: str, folder: Path) -> None:
    assert variables(shell, folder, script, WORLD_SIZE="")["WORLD_SIZE"] == ""


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
    assert variables("dash", folder, script, MASTER_PORT=f"{scheme}://10.0.0.1:80")["MASTER_PORT"] == "29500"
    assert variables("dash", folder, script, MASTER_ADDR="tcp://a:1")["MASTER_ADDR"] == "tcp://a:1"


@EACH_SHELL
def test_what_fb_variables_names_is_the_barriers_whatever_the_image_has_set(shell: str, folder: Path) -> None:
    found = variables(shell, folder, ". ./injector.sh", FB_VARIABLES="RANK,MASTER_ADDR", RANK="9", WORLD_SIZE="9")
    assert (found["RANK"], found["WORLD_SIZE"]) == ("1", "9")
    # MASTER_PORT was in no list, but nobody had set it.
    assert found["MASTER_PORT"] == "29500"


@EACH_SHELL
def test_a_script_that_is_sourced_again_brings_its_own_variables_up_to_date(shell: str, folder: Path) -> None:
    old = (folder / "presets.sh").read_text()
    write(folder, 2)
    (folder / "old.sh").write_text(old.replace(ip(1), "10.99.99.99"))
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
    assert set(variables(shell, folder, script)) - set(variables(shell, folder, ":")) == {
        *("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE"),
        *("NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_RDZV_BACKEND", "PET_RDZV_ID", "PET_RDZV_ENDPOINT"),
        "FB_VARIABLES",
        *(f"FB_{role}_{what}" for role in ("MASTER", "WORKER") for what in ("IPS", "ADDRESSES", "PORT")),
    }


def lists(found: dict[str, str]) -> Iterator[str]:
    return (name for name in found if name.startswith("FB_") and name != "FB_VARIABLES")


@EACH_SHELL
def test_run_leaves_it_at_the_presets_where_the_injector_says_so(shell: str, folder: Path) -> None:
    found = by_run(shell, folder, FB_RUN="presets", FB_VARIABLES="RANK", RANK="9")
    assert found["RANK"] == "1"
    assert list(lists(found)) == []
    # Which does not concern the scripts that the command runs itself.
    assert "FB_WORKER_IPS" in by_run(shell, folder)
    nested = variables(shell, folder, "exec ./run ./run env -0", FB_RUN="presets")
    assert "FB_WORKER_IPS" in nested


@pytest.mark.parametrize("preset", ["tensorflow", "pytorch", "jax", "mpi"])
def test_run_sets_the_same_for_the_presets_as_references_to_the_file_env(preset: str, folder: Path) -> None:
    write(folder, 1, preset)
    env = dict(line.split("=", 1) for line in (folder / "env").read_text().splitlines())
    of_file = {name: value[1:-1] for name, value in env.items() if not name.startswith("FB_")}
    found = by_run("dash", folder, FB_RUN="presets", FB_VARIABLES=",".join(of_file))
    assert {name: found[name] for name in found if name in of_file} == of_file
    assert set(found) - set(of_file) <= {"PATH", "FB_VARIABLES", "PWD", "OLDPWD", "SHLVL", "_"}
