"""What a release has beside the images: the generated files of the Helm chart, and the manifests made from the chart.

`python -m frameworkrelease` writes all of it into the repository; `make manifests` calls it. The templates and the
values of `charts/frameworkcontroller` are the one source of what is installed.
"""
