"""Cline, Roo Code and Kilo Code: their task folders, and the sessions of the Cline SDK."""
