"""What the formats share: small readings of untyped values, identities, places, and branching conversations."""
