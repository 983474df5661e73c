"""Palace: a local memory for coding agents.

Layers, each importing only from those to its right (``tests/test_layers.py`` enforces it)::

    cli -> rpc | bench -> service -> store | embed | watch -> core -> config -> model -> errors
    cli -> client -> errors

This module imports nothing, so that the command line starts fast.
"""

__version__ = "0.1.0"
