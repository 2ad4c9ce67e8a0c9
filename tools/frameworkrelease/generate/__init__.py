"""What is made from the sources.

`pages` puts tables into pages: of `codes`, `fields`, `matrix`, `performance`, `permissions` and `presets`, which also
begins a preset. `pictures` makes those of the manual, by means of `drawing`. `plain` makes the manifests of `deploy/`
from the chart, and `schema` the part of its values that is settings. `site` extends Sphinx, with the directives of
`reference`.
"""
