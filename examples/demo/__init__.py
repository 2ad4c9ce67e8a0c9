"""`python -m demo`: real TensorFlow training as a gang of Pods, from nothing to Succeeded, shown as it happens.

`events` and `facts` say what may be seen, `model` what is known after it, `lines`, `screen` and `summary` how that
reads; none of them does I/O. `watch` sees, `deploy` and `target` act, `run` puts them in order.
"""
