"""Transcript formats: bytes of an agent's own files in, exchanges out.

Invariant: no format trusts a file name alone, and none stops at a line that it cannot read. Each line is used or
counted with a reason.
"""
