"""Manifests as people write them: Frameworks and Pod templates made, changed, read and printed.

`manifest` has Frameworks and roles, `pod_template` the containers that `run` and `Role.container` ask for, `functions`
and `code` what travels with them; `set_field` does what `--set` asks for, and `yaml_text` reads and writes.
"""
