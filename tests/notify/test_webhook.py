import http.server
import json
import socket
import threading
import time

import pytest

from runward import ports
from runward.notify import webhook

NOTICE = ports.Notice("held", "demo", "demo held", "two\nlines", {"schema_version": 1, "run": "demo"})


class Server:
    """A real HTTP server that answers as told and keeps what it was sent."""

    def __init__(self):
        self.codes, self.got, self.hang, self.headers = [200], [], threading.Event(), {}
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.got.append((self.path, dict(self.headers), json.loads(body)))
                code = outer.codes.pop(0) if len(outer.codes) > 1 else outer.codes[0]
                if code == "hang":
                    outer.hang.wait(60)
                    return
                self.send_response(code)
                for name, value in outer.headers.items():
                    self.send_header(name, value)
                self.end_headers()

            def do_GET(self):
                self.do_POST()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}/hook/secret-path?token=s3cret"

    def close(self):
        self.hang.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = Server()
    yield server
    server.close()


def failure(notifier):
    with pytest.raises(ports.DeliveryFailed) as caught:
        notifier.send(NOTICE)
    return caught.value


def test_a_notice_arrives_as_json_with_its_words(server):
    webhook.parse(server.url).send(NOTICE)
    path, headers, body = server.got[0]
    assert path == "/hook/secret-path?token=s3cret"
    assert headers["Content-Type"] == "application/json"
    assert body == {
        "schema_version": 1,
        "run": "demo",
        "event": "held",
        "title": "demo held",
        "text": "two\nlines",
    }


@pytest.mark.parametrize(
    ("code", "permanent"),
    [
        (400, True),
        (401, True),
        (404, True),
        (410, True),
        (408, False),
        (429, False),
        (500, False),
        (503, False),
    ],
)
def test_a_refusal_is_permanent_and_a_fault_of_the_server_is_not(server, code, permanent):
    server.codes = [code]
    error = failure(webhook.parse(server.url))
    assert error.permanent is permanent
    assert str(code) in str(error)


def test_errors_never_name_the_secret_address(server):
    server.codes = [500]
    words = str(failure(webhook.parse(server.url)))
    assert "secret" not in words
    assert "s3cret" not in words


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(server, code):
    server.codes = [code]
    server.headers = {"Location": server.url + "&again"}
    assert failure(webhook.parse(server.url)).permanent
    assert len(server.got) == 1


def test_a_server_that_never_answers_is_left_after_the_deadline(server):
    server.codes = ["hang"]
    error = failure(webhook.WebhookNotifier(server.url, deadline_s=0.5))
    assert not error.permanent


def test_a_server_that_sends_a_byte_now_and_then_is_left_after_the_deadline(server):
    del server
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip():
            opened, _ = listener.accept()
            with opened:
                while not stop.wait(0.1):
                    try:
                        opened.send(b"H")
                    except OSError:
                        return

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        error = failure(webhook.WebhookNotifier(url, deadline_s=1.0))
        stop.set()
        thread.join(30)
    assert "deadline" in str(error)


def test_nobody_listening_is_a_passing_failure():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert not failure(webhook.parse(f"http://127.0.0.1:{port}/")).permanent


def test_a_login_in_the_address_becomes_a_header(server):
    webhook.parse(server.url.replace("http://", "http://bob:p%40ss@")).send(NOTICE)
    assert server.got[0][1]["Authorization"] == "Basic Ym9iOnBAc3M="
    assert webhook.parse("https://bob:p@host/x?k=v").name == "https://host"


@pytest.mark.parametrize(
    "text", ["ftp://host/x", "http://", "file:///etc/passwd", "http://host:port/", "http://[::1"]
)
def test_an_address_that_is_none_is_refused_without_repeating_it(text):
    with pytest.raises(ValueError, match=r"(?i)http://HOST") as caught:
        webhook.parse(text)
    assert text not in str(caught.value) or text == "http://"


def test_sending_leaves_no_thread_behind(server):
    before = threading.active_count()
    webhook.parse(server.url).send(NOTICE)
    end = time.monotonic() + 30
    while (
        threading.active_count() > before + 1 and time.monotonic() < end
    ):  # the server's own handler may linger
        time.sleep(0.02)
    assert threading.active_count() <= before + 1
