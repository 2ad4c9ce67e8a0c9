"""One module for each version of the tables, which are never changed once they are released."""
