import pytest

from frameworkbarrier import settings
from frameworkbarrier.files.container import Container
from frameworkbarrier.files.render import render
from frameworkbarrier.presets import model as presets
from frameworkbarrier.presets.model import PresetVariable
from tests.barrier.gangs import environment, released, roster

ROLES = {"worker": 2, "dashboard": 1}


def exported(preset: str, role: str, **environ: str) -> set[str]:
    """Names of the variables that a Task of a role gets from a preset."""
    opened = released(roster(ROLES), role)
    roles = {"FB_RANK_ROLES": "worker", "FB_HEAD_ROLE": "dashboard"}
    read = settings.parse(environment(role, 0, FB_PRESET=preset, **roles, **environ))
    files = {file.name: file.data.decode() for file in render(opened, read, Container()).files}
    names = {line.partition("=")[0] for line in files["env"].splitlines()}
    return {name for name in names if not name.startswith("FB_")}


@pytest.mark.parametrize("preset", presets.names())
def test_a_task_gets_all_variables_of_a_preset_that_are_not_optional_and_no_unknown_one(preset: str) -> None:
    variables = presets.variables([preset])
    needed = {variable.name for variable in variables if not variable.optional}
    for role in ROLES:
        assert needed <= exported(preset, role) <= {variable.name for variable in variables}


@pytest.mark.parametrize("preset", presets.names())
def test_a_variable_is_optional_only_if_some_task_lacks_it(preset: str) -> None:
    loaded = presets.load(preset)
    grow = set(loaded.short_variables) | loaded.long
    optional = {variable.name for variable in presets.variables([preset]) if variable.optional}
    lacking = set(loaded.variables) - (
        exported(preset, "dashboard") & exported(preset, "worker", FB_NPROC_PER_NODE="gpu")
    )
    assert optional == lacking | grow | {f"{name}_FILE" for name in grow}


def test_each_preset_has_only_known_fields_and_short_forms_of_its_own_variables() -> None:
    for name in presets.names():
        preset = presets.load(name)
        assert set(preset.short_variables) <= set(preset.variables)
        assert preset.optional | preset.long <= set(preset.variables)
        assert preset.port is None or 0 < preset.port < 65536


def test_the_variables_of_several_presets_are_those_of_each_in_order_and_once() -> None:
    jax, tensorflow = presets.variables(["jax"]), presets.variables(["tensorflow"])
    assert presets.variables(["jax", "tensorflow", "jax"]) == (*jax, *tensorflow)
    assert tensorflow == (PresetVariable("TF_CONFIG", optional=True), PresetVariable("TF_CONFIG_FILE", optional=True))


def test_presets_are_listed_in_the_order_of_their_places() -> None:
    assert sorted(presets.in_order()) == sorted(presets.names())
    assert presets.in_order()[:4] == ("tensorflow", "pytorch", "jax", "mpi")
    places = [presets.load(name).place for name in presets.in_order()]
    assert len(set(places)) == len(places)


def test_a_variable_of_two_presets_is_there_once_and_as_the_first_says() -> None:
    both = presets.variables(["pytorch", "deepspeed"])
    assert [one for one in both if one.name == "MASTER_ADDR"] == [PresetVariable("MASTER_ADDR", optional=False)]
    assert "LOCAL_RANK" in exported("deepspeed,pytorch", "worker")
    opened = released(roster({"master": 1, "worker": 1}), "worker")
    read = settings.parse(environment(FB_PRESET="deepspeed,pytorch", FB_PORTS="master=1"))
    env = next(file for file in render(opened, read, Container()).files if file.name == "env").data.decode()
    assert [line for line in env.splitlines() if line.startswith("MASTER_PORT=")] == ["MASTER_PORT='1'"]
