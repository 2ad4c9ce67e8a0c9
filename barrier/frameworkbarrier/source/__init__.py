"""What the cluster says of the gang: the source is chosen, read, watched, and made into a `Gang`."""
