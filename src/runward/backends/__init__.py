"""What schedules a job and knows its state: one module a backend."""
