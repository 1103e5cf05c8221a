"""Part of the build: the shipped rules are compiled into the package, so that nobody's first look has to do it."""

import os
import sys

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

INDEX = "src/runward/rulesets/compiled.jsonl"


class CompileRules(BuildHookInterface):
    """Writes the file beside the rules, also for an editable install; git ignores it."""

    def initialize(self, version, build_data):
        sys.path.insert(0, os.path.join(self.root, "src"))
        try:
            from runward.config import rulesets

            data = rulesets.encoded(rulesets.compiled())
            with open(os.path.join(self.root, INDEX), "wb") as file:
                file.write(data)
        except (ImportError, OSError) as error:  # no PyYAML here, or a source tree that is read-only
            self.app.display_warning(f"the first look of each user will compile the rules: {error}")
        else:
            build_data["artifacts"].append(INDEX)
        finally:
            sys.path.pop(0)
