"""`python -m runward.compat.autoexp.monitor_autoexp --manifest PATH`: go on with the jobs of a session."""

import argparse
import logging
import sys
from collections.abc import Sequence

from runward.compat.autoexp import host
from runward.core import errors


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; the exit code."""
    made = argparse.ArgumentParser(
        "monitor_autoexp", description="Monitor the jobs of a session until they end."
    )
    made.add_argument("--manifest", required=True, metavar="PATH", help="The plan, as JSON.")
    made.add_argument("--use-fake-slurm", action="store_true", help="Slurm in memory: submits nothing.")
    made.add_argument("--verbose", action="store_true", help="Log what is decided.")
    made.add_argument("--debug", action="store_true", help="Log everything.")
    given = made.parse_args(argv)
    level = logging.DEBUG if given.debug else logging.INFO if given.verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(asctime)s [%(levelname)s] %(name)s: %(message)s")
    try:
        runtime = host.build_host_runtime(given.manifest, use_fake_slurm=given.use_fake_slurm)
        controller = host.instantiate_controller(runtime)
        names = host.restore_jobs(runtime, controller)
    except errors.RunwardError as error:
        for problem in error.problems:
            print(f"monitor_autoexp: {problem}", file=sys.stderr)
        return error.exit_code
    if names:
        print(f"Restored {len(names)} job(s): {', '.join(names)}", flush=True)
    if not list(controller.jobs()) and not list(controller.stopped()):
        print("No jobs registered in monitoring session; nothing to monitor.")
        return 0
    assert runtime.state_store is not None  # noqa: S101 -- `build_host_runtime` always makes one
    print(f"Monitoring session: {runtime.state_store.session_id}", flush=True)
    try:
        host.run_monitoring(runtime, controller)
    except KeyboardInterrupt:
        print("monitor_autoexp: interrupted; the session is kept", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
