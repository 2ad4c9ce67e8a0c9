"""The injector: a mutating webhook that adds the barrier to the Pods that ask for it by a label.

`review` decides on one Pod and asks nobody; `serving` is the server of the webhook; `certificates` are those that the
API server trusts; `offline` gives the same answers without a cluster.
"""

# The version of the distribution, whose metadata an image does not carry; a test compares the two.
__version__ = "0.3.0"
