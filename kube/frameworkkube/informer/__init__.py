"""List and watch: a cache of objects that recovers from every fault of a connection."""
