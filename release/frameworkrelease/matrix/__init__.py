"""The support matrix: the tests run on each supported version of Kubernetes, and a page says what came of it.

`make matrix` runs them, keeps the results in `docs/operate/support.json` and writes the tables of
`docs/operate/support.md`. `make manifests` writes the tables again; a test compares them.
"""
