"""The rules of a review without a cluster, and the audit of one: for objects in files, and for commands of people."""
