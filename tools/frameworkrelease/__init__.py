"""Generated files: those of the Helm chart, and the manifests made from the chart; the version; and releases.

`python -m frameworkrelease` writes what is generated into the repository; `make manifests` calls it. The templates and
the values of `charts/frameworkcontroller` are the one source of what is installed. `artefacts` builds a release.
"""
