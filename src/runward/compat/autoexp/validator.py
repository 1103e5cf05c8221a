"""Looks at a job script before it is submitted: its name, places that were not filled in, what must stand in it."""

import re
from collections.abc import Sequence


class SlurmValidationError(ValueError):
    """A script that should not be submitted, and why."""


_PLACEHOLDER = re.compile(r"(?<![$\\{])\{([A-Za-z_][A-Za-z0-9_]*)\}(?!\})")


def validate_job_script(text: str, job_name: str, required_tokens: Sequence[str] = ()) -> None:
    """Raises SlurmValidationError with everything that is wrong. A shell's own `${name}` is no placeholder."""
    wrong = []
    if f"--job-name={job_name}" not in text and not re.search(rf"-J\s*{re.escape(job_name)}\b", text):
        wrong.append(f"no #SBATCH --job-name={job_name}")
    left = sorted({found[1] for found in _PLACEHOLDER.finditer(text)})
    if left:
        wrong.append("places that were not filled in: " + ", ".join(f"{{{name}}}" for name in left))
    wrong += [f"{token!r} does not stand in it" for token in required_tokens if token not in text]
    if wrong:
        raise SlurmValidationError(f"script of {job_name}: {'; '.join(wrong)}")
