"""The daemon's wire: JSON-RPC 2.0 with LSP framing over a private Unix socket.

Invariants: every request gets exactly one answer; bytes that are no frame execute nothing; no text of a transcript
and no query is logged; nothing is ever written to standard output. Only :mod:`~palace_daemon.rpc.session` imports
pygls, so that the socket listens before that import is paid, and the command line can use the wire types without it.
"""
