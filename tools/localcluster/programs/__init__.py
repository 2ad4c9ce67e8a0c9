"""The programs of a cluster: which ones there are, and how each is downloaded or built once."""
