"""The pages of real runs in a real browser, and their metrics in a real Prometheus."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.parse
from pathlib import Path

import pytest

from e2e.conftest import Box
from fakes import browser
from waiting import until, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("serve")]  # its runs are started once
BOOM = """
print("step 1/10 loss 0.5 <script>document.title = 'owned'</script>", flush=True)
{}["lr"]
"""
DOCS = Path(__file__).parents[2] / "docs" / "serve.md"


def require(*programs):
    """Skip with the reason; in CI fail."""
    missing = [one for one in programs if shutil.which(one) is None]
    if missing and os.environ.get("CI") == "true":
        pytest.fail(f"wanted: {', '.join(missing)}")
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


class Server:
    """`runward serve` over the state of a box."""

    def __init__(self, box, *argv):
        words = [sys.executable, "-m", "runward", "serve", "--port", "0", "--json", *argv]
        self.process = subprocess.Popen(words, env=box.env, stdout=subprocess.PIPE, text=True)
        box.started.append(self.process)
        self.said = json.loads(self.process.stdout.readline())
        self.process.stdout.close()
        self.address = urllib.parse.urlsplit(self.said["url"]).netloc

    def get(self, path, **headers):
        return browser.get(self.address, path, **headers).text


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run that goes on and one that is held; nobody may hurt them."""
    box = Box(tmp_path_factory.mktemp("serve"))
    try:
        (box.work / "boom.py").write_text(BOOM)
        boom = box.start("--name", "boom", "--", sys.executable, str(box.work / "boom.py"))
        going(box)
        box.ended(boom, 1)
        yield box
    finally:
        box.close()


def going(box):
    box.start(*box.usual("going"), "--", *box.demo(steps=100_000, step_time=0.2))
    wait_until(lambda: box.page("going").get("step"), "a step of it")


def dom(box, url, seconds):
    """What a browser shows after so many seconds of its own clock, which waits for answers."""
    flags = [
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
        *("--disable-background-networking", "--disable-extensions", "--disable-component-update"),
        *("--disable-breakpad", "--disable-crash-reporter", "--disable-sync", "--no-proxy-server"),
        f"--user-data-dir={box.root / 'browser'}", f"--virtual-time-budget={seconds * 1000}",
    ]  # fmt: skip
    done = subprocess.run(
        ["chromium", *flags, "--dump-dom", url], env={"PATH": os.environ["PATH"], "HOME": str(box.root)},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=170, check=False,
    )  # fmt: skip
    assert "<main>" in done.stdout, done.stderr[-2000:]
    return done.stdout


def forwarder(address, answers):
    """A port that passes so many requests for pages on to the server, and then none: as when the server is gone."""
    host, port = address.split(":")
    listener = socket.create_server(("127.0.0.1", 0))
    left = [answers]

    def pass_on(client):
        with client, socket.create_connection((host, int(port))) as server:
            head = client.recv(65536)
            if not head:
                return  # a connection that the browser made in advance
            if b" /static/" not in head:
                left[0] -= 1
                if left[0] < 0:
                    return
            server.sendall(head)
            while data := server.recv(65536):
                client.sendall(data)

    def accept():
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=pass_on, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener


@pytest.mark.chromium
def test_a_browser_shows_the_page_keeps_it_new_and_says_when_it_cannot(runs):
    require("chromium")
    served = Server(runs)
    page = dom(runs, f"http://{served.address}/runs/going", 12)
    assert re.search(r'<span class="state good">running</span>', page)
    loaded, shown = re.search(r'data-at="([^"]+)"', page)[1], re.search(r'<time datetime="([^"]+)"', page)[1]
    assert shown > loaded, "nothing was fetched again"
    assert re.search(r'<p id="alarm" role="alert" hidden="">', page)
    assert "<title>going: running" in page
    assert "of 100000" not in page
    assert re.search(r"step \d+/100000 loss", page)

    listener = forwarder(served.address, 1)
    with listener:
        page = dom(runs, f"http://127.0.0.1:{listener.getsockname()[1]}/runs/boom", 40)
    assert re.search(r'<body [^>]*class="stale"', page)
    said = re.search(r'<p id="alarm" role="alert">([^<]*)</p>', page)[1]
    assert re.fullmatch(r"The server does not answer\. What stands below is \d+ s old\.", said)
    assert "KeyError" in page
    assert "<title>Old: boom: held" in page, "a line of the log was run as a script"


def test_a_run_whose_watcher_was_killed_is_not_green_any_more(box):
    going(box)
    served = Server(box)
    os.kill(json.loads(served.get("/api/runs/going"))["watcher"]["pid"], signal.SIGKILL)
    wait_until(lambda: json.loads(served.get("/api/runs/going"))["watcher"] is None, "nobody watches")
    for path in ("/", "/runs/going"):
        page = served.get(path)
        assert ("state good" in page, "nobody watches this run" in page) == (False, True)
    assert 'runward_run_seen{run="going"} 0.0' in served.get("/metrics")


@pytest.mark.prometheus
def test_prometheus_takes_the_metrics_and_the_rules_that_the_docs_show(runs):
    require("prometheus", "promtool")
    served = Server(runs, "--token-file", str(runs.root / "token"))
    token = (runs.root / "token").read_text().strip()
    told = served.get("/metrics", Authorization=f"Bearer {token}")
    checked = subprocess.run(["promtool", "check", "metrics"], input=told, capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")

    rules = re.findall(r"(?m)^    (- alert:.*|  expr:.*|  for:.*)$", DOCS.read_text())
    text = "groups:\n- name: runward\n  rules:\n" + "".join(f"  {line}\n" for line in rules)
    (runs.root / "rules.yml").write_text(text)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (runs.root / "prometheus.yml").write_text(
        "global: {scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}\nrule_files: [rules.yml]\nscrape_configs:\n"
        f"- {{job_name: runward, scrape_interval: 1s, scrape_timeout: 1s, authorization: {{credentials_file: token}}, static_configs: [{{targets: ['{served.address}']}}]}}\n"
    )
    with (runs.root / "prometheus.out").open("wb") as out:
        argv = ["prometheus", f"--config.file={runs.root}/prometheus.yml", f"--storage.tsdb.path={runs.root}/tsdb", f"--web.listen-address=127.0.0.1:{port}"]  # fmt: skip
        runs.started.append(subprocess.Popen(argv, stdout=out, stderr=out, cwd=runs.root))

    def asked(query):
        try:
            said = browser.get(f"127.0.0.1:{port}", f"/api/v1/query?query={urllib.parse.quote(query)}")
            return said.json["data"]["result"]
        except (OSError, ValueError):
            return []

    until(lambda: asked('runward_run_step{run="going"} > 0'), "a step in Prometheus")
    found = until(lambda: asked('ALERTS{alertname="RunHeld"}'), "the alert of the docs")
    assert found[0]["metric"]["run"] == "boom"
