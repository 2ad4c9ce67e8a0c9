"""The configuration file, its defaults, and what is wrong with one."""
