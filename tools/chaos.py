"""Kills watchers and keepers at random instants, seed after seed, until the time or the number of kills is reached.

usage: chaos.py [--seconds 300] [--kills 1000] [--seed 1]. Exit 1: a seed broke a promise; it is named, and repeatable.
"""

import argparse
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]


def main() -> int:
    parser = argparse.ArgumentParser(description="Random kills, seeded.")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    from e2e.conftest import Box
    from e2e.kills import Story

    began, done, runs = time.monotonic(), 0, 0
    while done < args.kills and time.monotonic() - began < args.seconds:
        story = Story(args.seed + runs, kills=10)
        with tempfile.TemporaryDirectory() as place:
            box = Box(pathlib.Path(place))
            try:
                story.play(box)
            except AssertionError as error:
                print(f"seed {story.seed} broke a promise: {error}", file=sys.stderr)
                return 1
            finally:
                box.close()
        done, runs = done + len(story.done), runs + 1
    took = time.monotonic() - began
    seeds = f"seeds {args.seed} to {args.seed + runs - 1}"
    print(f"{done} kills in {runs} runs, {took:.0f} s, {seeds}: nothing lost or doubled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
