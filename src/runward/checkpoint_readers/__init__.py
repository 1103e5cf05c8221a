"""Standard-library checkpoint readers; shipped as a zipapp to machines where Runward is not installed."""
