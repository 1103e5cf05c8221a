"""What people see: pure view models and their renderers."""
