"""Generated files: those of the Helm chart, and the manifests made from the chart; the version; and releases.

`python -m frameworkrelease` is the command line of all of them, behind targets of make. The templates and the values of
`charts/frameworkcontroller` are the one source of what is installed. A release is built from a commit, signed,
published to a registry, and installed from there: `release` lists its files, `build` makes them, `signing` signs, and
`publish` and `check` do the rest; docs/operate/releases.md describes how a user verifies it.
"""
