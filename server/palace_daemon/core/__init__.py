"""The pure core: bytes and values in, values out.

Invariant: no files, sockets, SQLite, ONNX, threads, clock or logging here. What the core needs from outside it
takes as a small Protocol (see :mod:`palace_daemon.core.ports`) or as an argument.
"""
