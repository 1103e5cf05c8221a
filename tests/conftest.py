"""For all tests: a generated example may take its time, as the machine may be a busy one."""

import hypothesis

hypothesis.settings.register_profile("patient")
hypothesis.settings.load_profile("patient")
