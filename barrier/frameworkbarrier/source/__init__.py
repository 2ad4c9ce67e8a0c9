"""What the cluster says of the gang: the source is chosen, read, watched, and made into a `Gang`.

A view of it also says when the gate can never open, since its object is gone.
"""
