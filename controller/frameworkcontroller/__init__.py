"""FrameworkController for Python: runs any application as one Framework object.

Layers, each importing only those to its right: `engine -> core -> api`; `engine` also imports `frameworkkube`.
"""

__version__ = "0.3.0"
