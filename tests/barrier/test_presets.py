from frameworkbarrier import presets
from frameworkinjector import presets as injected


def test_the_injector_refers_to_exactly_the_variables_that_each_preset_can_set() -> None:
    assert {preset.value for preset in injected.Preset} == set(presets.names())
    for preset, variables in injected.VARIABLES.items():
        own = set(presets.variables(preset.value))
        in_files = {f"{name}_FILE" for name in presets.load(preset.value).short_variables}
        assert {variable.name for variable in variables} == own | in_files


def test_each_preset_has_only_known_fields_and_short_forms_of_its_own_variables() -> None:
    for name in presets.names():
        preset = presets.load(name)
        assert set(preset.short_variables) <= set(preset.variables)
        assert preset.port is None or 0 < preset.port < 65536
