"""A stand-in `kubectl exec`: checks what it is given, writes it down, and runs the rest here."""

import json
import os
import subprocess
import sys

if __package__:
    from fakes import volume
else:
    import volume  # run as a script


def main(argv: list[str]) -> None:
    with open(os.environ["STAND_IN_CALLS"], "a", encoding="utf-8") as file:
        file.write(json.dumps(argv) + "\n")
    assert argv[0] == "exec", argv
    rest, inner = argv[1 : argv.index("--")], argv[argv.index("--") + 1 :]
    namespace = rest[rest.index("-n") + 1] if "-n" in rest else ""
    words = [
        word for at, word in enumerate(rest) if not word.startswith("-") and rest[at - 1] not in {"-n", "-c"}
    ]
    pods = json.loads(os.environ["STAND_IN_PODS"])
    if words[0] not in pods.get(namespace or "default", []):
        print(f'Error from server (NotFound): pods "{words[0]}" not found', file=sys.stderr)
        sys.exit(1)
    os.environ["PATH"] = os.environ.get("STAND_IN_PATH", "") + ":" + os.environ["PATH"]
    if "STAND_IN_VOLUME" in os.environ:
        done = subprocess.run(volume.inside(inner), stdout=subprocess.PIPE, check=False)
        sys.stdout.buffer.write(volume.outside(done.stdout))
        sys.exit(done.returncode)
    try:
        os.execvp(inner[0], inner)
    except FileNotFoundError:
        print(f'exec: "{inner[0]}": executable file not found in $PATH', file=sys.stderr)
        sys.exit(126)


if __name__ == "__main__":
    main(sys.argv[1:])
