"""The configuration file, its defaults (the Lease's are in `frameworkkube.election`), and what is wrong with one."""
