"""The messages that the two sides exchange, and their encoding."""
