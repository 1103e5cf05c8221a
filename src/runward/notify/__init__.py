"""Ways to tell a person: one module a channel."""
