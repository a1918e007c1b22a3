"""What the two sides say to each other: messages and their encoding."""
