"""How the two sides agree on a token: one rule per mode."""
