"""Commands in a pod, by `kubectl exec` with the user's own rights: no shell, no terminal."""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runward import ports
from runward.core import errors, kubernetes

_LOST = re.compile(
    r"unable to connect|connection refused|connection reset|i/o timeout|TLS handshake|EOF|no such host|"
    r"error dialing|net/http|Unauthorized|Forbidden|forbidden|provide credentials|NotFound|not found\b.*pod|"
    r"pods? .* not found|container not found|cannot exec|timed out waiting|Too Many Requests|"
    r"context .* does not exist|current-context|etcdserver",
    re.IGNORECASE,
)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_MISSING = re.compile(r"executable file not found|no such file or directory: unknown", re.IGNORECASE)
_READ = (
    "import os,sys,base64\np,o,n=sys.argv[1:]\n"
    "try:\n d=os.open(p,os.O_RDONLY|os.O_NONBLOCK)\n"
    "except OSError as e: sys.exit(40+min(e.errno,80))\n"
    "sys.stdout.write(base64.b64encode(os.pread(d,int(n),int(o))).decode())"
)
_ERRNOS: Mapping[int, type[OSError]] = {42: FileNotFoundError, 53: PermissionError, 61: IsADirectoryError}


@dataclass(frozen=True)
class Pod:
    """One container of one pod. Names are checked: nothing of them can become an option of kubectl."""

    host: ports.Runner
    """Where kubectl is run."""
    pod: str
    namespace: str | None = None
    """None: that of the user's context."""
    container: str | None = None
    kubectl: Sequence[str] = ("kubectl",)
    """The command, with what the user adds to it, as `--context`."""

    def __post_init__(self) -> None:
        for word in (self.pod, self.namespace, self.container):
            if word is not None and not _NAME.fullmatch(word):
                raise errors.UsageError(errors.Problem(f"{word!r} is no name of Kubernetes", "pod:"))

    @property
    def name(self) -> str:
        """`pod:NAMESPACE/POD`."""
        return f"pod:{self.namespace or '-'}/{self.pod}"

    def argv(self, argv: Sequence[str], *, stdin: bool = False) -> tuple[str, ...]:
        """The command as kubectl is given it."""
        where = ("-n", self.namespace) if self.namespace else ()
        inner = ("-c", self.container) if self.container else ()
        return (*self.kubectl, "exec", *where, *(("-i",) if stdin else ()), self.pod, *inner, "--", *argv)

    def run(self, call: ports.Call) -> ports.Completed:
        """See `ports.Runner.run`. `cwd` and `env` are set by `env` in the pod."""
        inner = call.argv
        if call.cwd is not None or call.env is not None:
            pairs = [f"{key}={value}" for key, value in (call.env or {}).items()]
            inner = ("env", *(("-C", call.cwd) if call.cwd else ()), *pairs, *inner)
        outer = call._replace(argv=self.argv(inner, stdin=bool(call.stdin)), env=None, cwd=None)
        done = self.host.run(outer)
        error = kubernetes.said(done.stderr.decode("utf-8", "replace"))
        if done.code == 127 and error == f"{self.kubectl[0]}: not found":
            raise ports.ContactLost(f"{self.name}: {self.kubectl[0]} is not installed here")
        if done.code not in (0, None) and _MISSING.search(error):
            return done._replace(argv=call.argv, code=127)
        if (
            done.code not in (0, None)
            and "command terminated with exit code" not in error
            and _LOST.search(error)
        ):
            raise ports.ContactLost(f"{self.name}: {error[:300]}")
        return done._replace(argv=call.argv)

    def read(self, path: str, offset: int, limit: int) -> bytes:
        """See `ports.Runner.read`."""
        done = self.run(
            ports.Call(("python3", "-c", _READ, path, str(offset), str(limit)), limit=limit * 2 + 64)
        )
        known = _ERRNOS.get(done.code or 0)
        if known is not None:
            raise known(f"{self.name}:{path}")
        if not done.ok:
            words = done.stderr.decode("utf-8", "replace").strip()[:300]
            raise ports.ContactLost(f"{self.name}: {path} cannot be read there: {words or done.code}")
        return base64.b64decode(done.stdout)
