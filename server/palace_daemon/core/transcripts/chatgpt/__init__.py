"""ChatGPT: its export."""
