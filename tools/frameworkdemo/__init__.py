"""`python -m frameworkdemo`: TensorFlow training as a gang of Pods, from nothing to Succeeded, shown live.

`run` takes the steps: `target` provides a `cluster`, `deploy` installs the programs, and `gang` runs the Framework by
`frameworkctl`, as a user would. `python -m frameworkdemo.examples` runs the examples on the same kind of node.
"""
