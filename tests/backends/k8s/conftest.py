"""A served cluster, and the two ways to it: lightkube's credentials, and the real kubectl where it is installed."""

import os
import shutil
import threading

import pytest

import commands
from kubeapi import Cluster, Served
from runward.backends.k8s import backend, direct, feed, kubectl
from runward.runners import local


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def served(cluster, tmp_path, monkeypatch):
    one = Served(cluster)
    monkeypatch.setenv("KUBECONFIG", one.kubeconfig(tmp_path / "kubeconfig"))
    monkeypatch.delenv("KUBECTL", raising=False)
    yield one
    one.close()


@pytest.fixture
def real_kubectl():
    found = shutil.which("kubectl")
    if found is None and os.environ.get("CI"):
        pytest.fail("CI must have kubectl (tools/install-services)")
    if found is None:
        pytest.skip("kubectl is not installed")
    return (found,)


@pytest.fixture
def feeds(monkeypatch):
    """Every feed that the test started, to be stopped at its end."""
    made = []
    start = feed.Feed.start

    def noted(self):
        made.append(self)
        start(self)

    monkeypatch.setattr(feed.Feed, "start", noted)
    return made


def let_go(served, feeds, one):
    """The server ends its streams, the threads that read them end, and then the connections."""
    for followed in feeds:
        followed.stop()
    served.close()
    for thread in threading.enumerate():
        if thread.name.startswith("k8s "):
            thread.join(10.0)
    one.close()


@pytest.fixture
def lightkube_way(served, feeds):
    one = direct.open_client()
    yield one
    let_go(served, feeds, one)


@pytest.fixture(params=["lightkube", "kubectl"])
def transport(request, served, feeds):
    if request.param == "lightkube":
        one = direct.open_client()
    else:
        one = kubectl.Kubectl(local.Local(), request.getfixturevalue("real_kubectl"))
    yield one
    let_go(served, feeds, one)


@pytest.fixture
def jobs(lightkube_way):
    """The backend over HTTP of our own."""
    return backend.Cluster(lightkube_way)


@pytest.fixture
def cli(tmp_path):
    mine = {"RUNWARD_STATE_DIR": str(tmp_path / "state"), "RUNWARD_TICKS__K8S": "1s"}
    return lambda *argv: commands.runward({**os.environ, **mine}, *argv)
