"""Generated files: those of the Helm chart, and the manifests made from the chart; the version; and releases.

`python -m frameworkrelease` is the command line of all of them, behind targets of make. The templates and the values of
`charts/frameworkcontroller` are the one source of what is installed. A release is built from a commit, signed,
published to a registry, and installed from there; docs/operate/releases.md describes what is in it and how a user
verifies it.
"""
