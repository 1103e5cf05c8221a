"""The shipped manifests, and what the tests make of them."""

import json
from pathlib import Path

import yaml

from runward.backends.k8s import manifests
from runward.core import job

DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"
READ = ("runward-read", "runward-nodes")
ACT = (*READ, "runward-act")


def documents(*paths):
    return [one for path in paths for one in yaml.safe_load_all((DEPLOY / path).read_text()) if one]


def rules(*names):
    found = documents("rights/rights.yaml", "act/act.yaml")
    return [rule for one in found if one["metadata"]["name"] in names for rule in one.get("rules", ())]


def spec(manifest, *words, **more):
    """An attempt of an object as it was served."""
    found = {manifests.MANIFEST: json.dumps(manifests.anew(manifest)), manifests.NAMESPACE: "ml", **more}
    return job.JobSpec(tuple(words), "/", {"RUNWARD_RESUME_STEP": "7"}, options=found)
