"""What the cluster says of the gang: the source is chosen, read, watched, and made into a `Gang`.

`roster` reads the controller's document and checks its version; `pods` and `framework` are the other sources. `views`
also says when the gate can never open, since its object is gone.
"""
