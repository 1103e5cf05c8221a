"""Feeds bytes that nobody would write to everything that reads the world's bytes, until the time is over.

usage: fuzz.py [--seconds 120] [--seed N] [--target NAME]. Exit 1: an input broke a promise; it is in ./fuzz-found/.

Coverage-guided by atheris where that is installed, else by mutations of real lines. The promises: nothing raises,
nothing takes longer than ten seconds for 64 KiB, engines agree, and how bytes are cut changes nothing.
"""

import argparse
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import fuzz_scan

ROOT = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

LIMIT_S = 10
LARGEST = 64 << 10


class TooSlow(Exception):
    """One input took longer than the limit."""


def _alarm(signum, frame):
    raise TooSlow


class Targets:
    """Everything that is fed, each with its promise."""

    def __init__(self):
        from runward.config import rulesets
        from runward.wiring import diagnose

        self.engine = diagnose.engine()
        self.examples = [
            line.encode()
            for rule in rulesets.full(user=False).rules
            for line in (*rule.match, *rule.no_match)
        ]
        self.folder = tempfile.mkdtemp()

    def diagnosis(self, data):
        from runward import ports
        from runward.app import diagnose
        from runward.core import context, diagnosis, signals

        cut = len(data) // 3
        pieces = [ports.Chunk(0, data[:cut]), ports.Chunk(cut, data[cut:])]
        source = signals.Source("fuzz.log", None, None, 2031)
        whole = diagnose.read(self.engine, [diagnose.Log(source, [ports.Chunk(0, data)])])
        parts = diagnose.read(self.engine, [diagnose.Log(source, pieces)])
        verdicts = [diagnosis.diagnose(book, context.Context()).verdict for book in (whole, parts)]
        assert verdicts[0] == verdicts[1], "how the bytes were cut changed the verdict"

    def engines(self, data):
        fuzz_scan.engines(data)

    def scanner(self, data):
        fuzz_scan.scanner(data)

    def regexes(self, data):
        fuzz_scan.regexes(data)

    def prefixes(self, data):
        from runward.core import prefixes, redact

        text = data.decode("utf-8", "replace")
        prefixes.split(text[:4096], 2031)
        redact.text(text[:8192])

    def checkpoint(self, data):
        from runward.checkpoint_readers import scanner

        for name in ("step_10.pt", "step_10.safetensors"):
            (pathlib.Path(self.folder) / name).write_bytes(data)
        scanner.scan(self.folder, depth="full")

    def configuration(self, data):
        from runward.config import documents
        from runward.core import errors

        try:
            documents.parse(data.decode("utf-8", "replace"), "fuzz.yaml")
        except errors.UsageError:
            return

    def events(self, data):
        import json

        from runward.core import events, run

        try:
            body = json.loads(data)
        except ValueError:
            return
        if isinstance(body, dict):
            try:
                run.fold([events.from_json(body)])
            except (TypeError, ValueError):
                return


NAMES = ("diagnosis", "engines", "scanner", "regexes", "prefixes", "checkpoint", "configuration", "events")


def feed(targets, name, data):
    signal.alarm(LIMIT_S)
    try:
        getattr(targets, name)(data[:LARGEST])
    finally:
        signal.alarm(0)


def feed_kept(targets, name, data):
    try:
        feed(targets, name, data)
    except Exception as error:
        keep(name, data, error)
        raise


def keep(name, data, error):
    found = pathlib.Path("fuzz-found")
    found.mkdir(exist_ok=True)
    path = found / f"{name}-{abs(hash(data)):x}"
    path.write_bytes(data)
    print(f"{name}: {type(error).__name__}: {error}; the input is {path}", file=sys.stderr)


def mutated(examples, rng):
    """Real lines, glued, cut, doubled and overwritten."""
    lines = [bytearray(rng.choice(examples)) for _ in range(rng.randrange(1, 40))]
    data = bytearray(rng.choice([b"\n", b"\r", b"\r\n", b""]).join(lines))
    for _ in range(rng.randrange(0, 12)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0:
                data[at : at + rng.randrange(8)] = rng.randbytes(rng.randrange(8))
            case 1:
                del data[at : at + rng.randrange(64)]
            case 2:
                data[at:at] = data[at : at + 64] * rng.randrange(40)
            case 3:
                data[at:at] = rng.choice([b"\x00", b"\x1b[31m", b"[rank3]: ", b"\xff\xfe", b" " * 5000])
            case _:
                data[at:at] = bytes([rng.randrange(256)]) * rng.randrange(3000)
    return bytes(data)


def by_mutation(targets, names, seconds, seed):
    rng, began, count, bad = random.Random(seed), time.monotonic(), 0, 0
    while time.monotonic() - began < seconds and bad < 5:
        data = mutated(targets.examples, rng)
        for name in names:
            try:
                feed(targets, name, data)
            except Exception as error:
                bad += 1
                keep(name, data, error)
            count += 1
    print(f"{count} inputs by mutation, seed {seed}: {bad} broke a promise")
    return bad


def by_coverage(name, seconds):
    """One target in a process of its own, whose modules are instrumented as they are imported."""
    argv = [sys.executable, __file__, "--cover", name, "--seconds", str(seconds)]
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        print(done.stderr[-3000:], file=sys.stderr)
    found = "an input broke a promise" if done.returncode else "nothing found"
    print(f"{name}: by coverage for {seconds:.0f} s: {found}")
    return int(done.returncode != 0)


def cover(name, seconds):
    import atheris

    with atheris.instrument_imports(include=["runward"]):
        targets = Targets()
        feed(targets, name, b"step 1/10 loss 2.0\n")
    atheris.Setup(
        ["fuzz", f"-max_total_time={int(seconds)}", f"-max_len={LARGEST}", "-verbosity=0"],
        lambda data: feed_kept(targets, name, data),
    )
    atheris.Fuzz()


def main():
    parser = argparse.ArgumentParser(description="Bytes that nobody would write.")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--target", choices=NAMES)
    parser.add_argument("--cover", choices=NAMES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    signal.signal(signal.SIGALRM, _alarm)
    if args.cover:
        return cover(args.cover, args.seconds)
    names = (args.target,) if args.target else NAMES
    targets = Targets()
    bad = by_mutation(targets, names, args.seconds / 2, args.seed)
    try:
        import atheris  # noqa: F401
    except ImportError:
        print("atheris is not installed: by mutation only")
        bad += by_mutation(targets, names, args.seconds / 2, args.seed + 1)
    else:
        for name in names:
            bad += by_coverage(name, max(1.0, args.seconds / 2 / len(names)))
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
