"""The page, and the same as JSON: who may see what, and what is drawn."""
