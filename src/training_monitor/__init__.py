"""Drop-in package of the Ray training monitor's Python API, thin over Runward. Needs Python 3.11."""
