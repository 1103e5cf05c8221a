"""What watching costs, and how fast a death is answered: one module a subject."""
