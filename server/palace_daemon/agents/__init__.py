"""What agents use: hooks, the MCP bridge, and their settings files.

Invariant: nothing below imports this package, and it reaches Palace through :mod:`palace_daemon.client` alone. A hook
runs before every prompt, so :mod:`.hook` and what it imports stay with the standard library; :mod:`.mcp_server` alone
imports the MCP SDK.
"""
