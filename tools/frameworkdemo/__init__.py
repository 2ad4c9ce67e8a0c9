"""`python -m frameworkdemo`: TensorFlow training as a gang of Pods, from nothing to Succeeded, shown live.

`__main__` reads the command line. `run` takes the steps, which `steps` tells: `target` provides a `cluster`, `deploy`
installs the programs with the manifests that `manifests` reads, and `gang` runs the Framework by `frameworkctl`, as a
user would, which `commands` starts.

`python -m frameworkdemo.examples` runs the examples on the same kind of node, see the package `examples`.
"""
