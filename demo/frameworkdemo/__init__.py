"""`python -m frameworkdemo`: TensorFlow training as a gang of Pods, from nothing to Succeeded, shown live.

`__main__` reads the command line. `run` takes the steps: `target` provides a cluster, `deploy` installs the programs
with the manifests that `manifests` reads, `watch` follows the Framework. All of them post events to the store of
`picture`, which shows the run and does not know how the cluster was set up.

`python -m frameworkdemo.examples` runs the examples on the same kind of node, see the package `examples`.
"""
