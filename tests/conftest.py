"""For all tests: a generated example may take its time, as the machine may be a busy one."""

import hypothesis

hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], print_blob=True
)
hypothesis.settings.load_profile("patient")
