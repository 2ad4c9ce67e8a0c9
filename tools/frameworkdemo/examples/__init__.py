"""`python -m frameworkdemo.examples`: run the examples of the folder `examples/`, and say how each of them went.

`catalogue` finds the examples. `run` runs one of them; the tests call it, too. It hands an `Example` to the example's
own steps, and `story` tells what happens meanwhile.
"""
