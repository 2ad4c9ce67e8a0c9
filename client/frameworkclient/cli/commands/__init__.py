"""What the commands do, each imported when it runs."""
