"""Pi: the entries of its sessions."""
