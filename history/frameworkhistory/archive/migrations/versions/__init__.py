"""One module for each version of the tables, which says all of them, and is never changed once it is released."""
