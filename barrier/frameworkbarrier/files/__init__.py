"""What the application finds: variables, lists and templates are rendered, and written so that files appear whole.

`render` calls `variables` (those that every Pod has, and how many slots a member has; a launcher's are in its preset),
`lists` (hosts, MPI's hostfiles), `environment` and `templates`, which get `template_values`; `writer` decides what is
written when, `output` writes it, `restart_notes` keeps what the next start has to know; `container` and `interfaces`
say where this runs.
"""
