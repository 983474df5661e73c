"""opencode and the new Kilo: their databases, and the older tree of small files."""
