"""The seven columns about each GPU that a snapshot of the box keeps, by one call of the driver's tool."""

from runward import ports
from runward.core import box

_FIELDS = "index,name,utilization.gpu,utilization.memory,memory.used,memory.total,temperature.gpu"
_ARGV = ("nvidia-smi", f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits")


def read(runner: ports.Runner, deadline_s: float = 10.0) -> tuple[tuple[box.Gpu, ...], str]:
    """The GPUs, and why they cannot be seen (empty when they can). Never raises."""
    try:
        done = runner.run(ports.Call(_ARGV, deadline_s=deadline_s, limit=1 << 18))
    except ports.ContactLost as lost:
        return (), str(lost)
    if done.code == 127:
        return (), "nvidia-smi is not installed"
    if not done.ok:
        words = (done.stdout + done.stderr).decode("utf-8", "replace").strip().splitlines()
        return (), "nvidia-smi " + (
            "did not answer in time" if done.timed_out else (words or ["failed"])[-1][:200]
        )
    return tuple(gpu for line in done.text.splitlines() if (gpu := _row(line)) is not None), ""


def _row(line: str) -> box.Gpu | None:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != 7 or not cells[0].isdigit():
        return None
    return box.Gpu(int(cells[0]), cells[1], *(_number(cell) for cell in cells[2:]))


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None  # "[N/A]", "[Not Supported]"
