"""`python -m frameworkdemo.examples`: run the examples of the folder `examples/`, and say how each of them went.

`__main__` reads the command line and sets the node up with `frameworkdemo.run.install`. `catalogue` finds the examples.
`run` runs one of them; the tests call it, too. It hands an `Example` (module `example`) to the example's own steps, and
`story` tells what happens meanwhile.
"""
