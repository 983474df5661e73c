"""Cursor: agent transcripts, the databases of editor and command line, exported markdown."""
