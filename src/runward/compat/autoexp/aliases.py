"""The modules of this package under the names that upstream gave them: `import oellm_autoexp.monitor.controller`."""

import sys
from importlib import import_module
from types import ModuleType

_HERE = "runward.compat.autoexp"
_NAMES = {
    "monitor.controller": "controller",
    "monitor.policy": "restart_policies",
    "monitor.actions": "actions",
    "monitor.states": "states",
    "monitor.watcher": "watcher",
    "slurm.client": "slurm_client",
    "slurm.validator": "validator",
    "persistence.state_store": "state_store",
    "workflow.host": "host",
    "config.schema": "schema",
    "utils.run": "running",
}


def install(package: str = "oellm_autoexp") -> None:
    """Offer the aliases to `import`. A package of that name that is already imported is left alone.

    Raises ImportError where it is.
    """
    earlier = sys.modules.get(package)
    if earlier is not None and not getattr(earlier, "__runward__", False):
        raise ImportError(f"{package} is already imported from {getattr(earlier, '__file__', 'elsewhere')}")
    root = _package(package)
    for name, own in _NAMES.items():
        folder, _, module = name.partition(".")
        parent = _package(f"{package}.{folder}")
        setattr(root, folder, parent)
        found = import_module(f"{_HERE}.{own}")
        setattr(parent, module, found)
        sys.modules[f"{package}.{name}"] = found
    persistence = sys.modules[f"{package}.persistence"]
    store = sys.modules[f"{package}.persistence.state_store"]
    for word in ("MonitorStateStore", "StoredJob"):
        setattr(persistence, word, getattr(store, word))


def _package(name: str) -> ModuleType:
    found = sys.modules.get(name)
    if found is None:
        found = ModuleType(name, f"Aliases of {_HERE}.")
        found.__path__ = []
        found.__dict__["__runward__"] = True
        sys.modules[name] = found
    return found
