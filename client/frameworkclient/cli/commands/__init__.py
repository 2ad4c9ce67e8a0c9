"""What the commands do, each imported when it runs; `log_output` writes lines with the names of their Tasks."""
