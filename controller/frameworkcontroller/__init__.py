"""FrameworkController for Python: runs any application as one Framework object.

Layers, each importing only those to its right: `engine -> cluster -> core -> api`.
"""

__version__ = "0.1.0"
