"""Kimi: the wire log of its sessions."""
