"""The artefacts of a release: built from a commit, signed, published to a registry, and installed from there.

`python -m frameworkrelease.artefacts` is the command line of `make release`, `release-check`, `publish`, `release-key`
and `lock-base`; docs/operate/release.md describes what is in a release and how a user verifies it.
"""
