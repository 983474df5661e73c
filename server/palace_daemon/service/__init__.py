"""Composes the layers below into one running Palace, and owns threads and lifetimes.

Invariant: no JSON, no JSON-RPC, no SQL here. The daemon, the command line and the bench all get their object from
:func:`palace_daemon.service.build.build`, so the bench measures the path that users run.
"""
