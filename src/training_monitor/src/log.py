"""The logger: level and file by TRAINING_MONITOR_LOG_LEVEL and TRAINING_MONITOR_LOG_FILE, from the import on."""

import logging
import os
import sys

FORMAT = "%(asctime)s - training_monitor - %(levelname)s - %(message)s"
logger = logging.getLogger("training_monitor")


class _Stdout(logging.StreamHandler):  # type: ignore[type-arg]  # its stream is looked up at each line
    """Whatever stdout is when a line is written."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stdout
        super().emit(record)


def setup_logging(level: str | None = None, log_file: str | None = None) -> logging.Logger:
    """Log to stdout, and to a file too when one is named. Arguments beat the environment."""
    wanted = (level or os.environ.get("TRAINING_MONITOR_LOG_LEVEL") or "INFO").upper()
    path = log_file or os.environ.get("TRAINING_MONITOR_LOG_FILE")
    for old in list(logger.handlers):
        logger.removeHandler(old)
        old.close()
    handlers: list[logging.Handler] = [_Stdout(sys.stdout)]
    problem = ""
    if path:
        try:
            handlers.append(logging.FileHandler(path, encoding="utf-8", delay=False))
        except OSError as error:
            problem = f"cannot log to {path}: {error.strerror}"
    for handler in handlers:
        handler.setFormatter(logging.Formatter(FORMAT))
        logger.addHandler(handler)
    known = logging.getLevelNamesMapping()
    logger.setLevel(known.get(wanted, logging.INFO))
    logger.propagate = False
    if wanted not in known:
        problem = f"no log level {wanted!r}: INFO is used"
    if problem:
        logger.warning(problem)
    return logger


def get_logger() -> logging.Logger:
    """The package's logger."""
    return logger


setup_logging()
