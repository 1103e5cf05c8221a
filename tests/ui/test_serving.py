"""Who may ask, for what, and what is answered: the guard and the routes over made-up runs."""

import threading

import pytest

from fakes import browser, shown_runs
from fakes.shown_runs import MADE
from runward.core import errors
from runward.ui.web import app, guard, readers

TOKEN = "0123456789abcdefghij"
EVERY = ("/", "/runs/seen", "/box", "/api/runs", "/api/runs/seen", "/api/runs/seen/events", "/api/runs/seen/log", "/healthz", "/metrics", "/static/serve.js", "/nonesuch")  # fmt: skip


def made(rules=guard.Rules(), **ways):  # noqa: B008 -- frozen
    return guard.Guard(app.build(shown_runs.looks(**ways)), rules)


OPEN = made()


@pytest.mark.parametrize("path", EVERY)
def test_every_answer_leaves_with_the_headers_that_keep_others_out(path):
    got = browser.ask(OPEN, path)
    assert got.code == (404 if path == "/nonesuch" else 200)
    assert {name.lower() for name in guard.HEADERS} <= {*got.headers}
    assert "default-src 'self'" in got.headers["content-security-policy"]
    assert not [name for name in got.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
@pytest.mark.parametrize("path", ["/", "/api/runs/seen", "/nonesuch"])
def test_nothing_can_be_changed(method, path):
    got = browser.ask(OPEN, path, method)
    assert (got.code, got.headers["allow"]) == (405, "GET, HEAD")


def test_a_head_is_a_get_without_its_body():
    assert browser.ask(OPEN, "/healthz", "HEAD").code == 200


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("localhost:8642", 200),
        ("127.0.0.1:8642", 200),
        ("[::1]:8642", 200),
        ("192.0.2.7", 200),
        ("Gpu-Box.:8642", 200),
        ("gpu-box.evil.example", 421),
        ("localhost.evil.example", 421),
        ("evil.example:8642", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 421),
    ],
)
def test_a_name_that_a_stranger_bound_to_this_address_is_refused(host, code):
    served = made(guard.Rules(frozenset({"gpu-box"})))
    for path in ("/", "/api/runs", "/metrics"):
        assert browser.ask(served, path, host=host).code == code


@pytest.mark.parametrize("path", EVERY)
def test_with_a_token_nothing_is_told_without_it(path):
    served = made(guard.Rules(token=TOKEN, cookie="runward-8642"))
    for given in (
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": "Bearer \xe9"},
        {"cookie": f"runward={TOKEN}"},
        {"cookie": "runward-8642="},
    ):
        got = browser.ask(served, path, **{k: v.encode().decode("latin-1") for k, v in given.items()})
        assert (got.code, "held" in got.text) == (401, False)
    for given in ({"authorization": f"Bearer {TOKEN}"}, {"cookie": f"a=b; runward-8642={TOKEN}"}):
        assert browser.ask(served, path, **given).code in {200, 404}


def test_a_token_in_the_address_becomes_a_cookie_and_leaves_the_address():
    served = made(guard.Rules(token=TOKEN, cookie="runward-8642"))
    assert browser.ask(served, "/?token=wrong").code == 401
    assert browser.ask(served, f"/?token={TOKEN}" + "&a=b" * 100).code == 401
    assert browser.ask(served, f"/api/runs?token={TOKEN}").code == 401
    got = browser.ask(served, f"/?token={TOKEN}")
    assert (got.code, got.headers["location"]) == (303, ".")
    cookie, *rest = got.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=strict"} <= {*rest}
    assert browser.ask(served, "/", cookie=cookie).code == 200


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("/api/runs/sene", 404, "did you mean 'seen'?"),
        ("/runs/sene", 404, "did you mean &#x27;seen&#x27;?"),
        ("/api/runs/..%2f..%2fetc%2fpasswd", 404, "there is no such page"),
        ("/api/runs/..", 404, "no run '..'"),
        (f"/api/runs/{'x' * 5000}", 404, "so long a name"),
        ("/api/runs/%00", 404, "no run"),
        ("/runs/<script>alert(1)", 404, "&lt;script&gt;"),
        ("/static/..%2fapp.py", 404, ""),
        ("/static/app.py", 404, ""),
        *((f"/api/runs/seen/log?lines={n}", 400, "from 1 to 2000") for n in ("0", "2001", "9" * 4000, "-1", "%D9%A3")),
        ("/api/runs/seen/log?attempt=x", 400, "attempt"),
        ("/api/runs/seen/events?last=1e9", 400, "last"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else None,
)  # fmt: skip
def test_a_wrong_word_is_answered_with_what_would_be_right(path, code, said):
    got = browser.ask(OPEN, path)
    assert (got.code, said in got.text) == (code, True), got.text
    assert "<script>alert" not in got.text
    if path.startswith("/api/"):
        assert got.json["schema_version"] == 1


def test_json_is_that_of_the_command_line():
    assert browser.ask(OPEN, "/api/runs").json == {
        "schema_version": 1,
        "runs": [shown_runs.row(n) for n in MADE],
    }
    assert browser.ask(OPEN, "/api/runs/held").json == shown_runs.status("held")
    assert len(browser.ask(OPEN, "/api/runs/held/events?last=7").text.splitlines()) == 7
    assert len(browser.ask(OPEN, "/api/runs/held/log?lines=2").json["lines"]) == 2


def test_a_log_that_does_not_answer_costs_only_the_log():
    def gone(*_):
        raise errors.Unreachable("the mount does not answer")

    got = browser.ask(made(log_end=gone), "/runs/held")
    assert (got.code, "the mount does not answer" in got.text, "killed (possible)" in got.text) == (
        200,
        True,
        True,
    )


def _fails(error):
    def look(*_):
        raise error

    return look


@pytest.mark.parametrize(
    ("error", "pages", "health", "up"),
    [
        (errors.NotFound("no state in /state"), 200, 503, "1.0"),
        (errors.Unreachable("state cannot be used now"), 503, 503, "0.0"),
    ],
    ids=["no state yet", "unreadable"],
)
def test_a_state_that_is_not_there_is_said_and_one_that_cannot_be_read_is_no_page_of_runs(
    error, pages, health, up
):
    served = made(rows=_fails(error), statuses=_fails(error))
    page, healthz = browser.ask(served, "/"), browser.ask(served, "/healthz")
    assert (page.code, browser.ask(served, "/api/runs").code, healthz.code) == (pages, pages, health)
    assert str(error) in healthz.text
    assert ("No runs in /state" if pages == 200 else "state cannot be used now") in page.text
    assert f"runward_up {up}" in browser.ask(served, "/metrics").text


def test_a_fault_of_ours_is_told_without_its_words():
    served = made(status=_fails(ValueError("secret of the process")))
    with pytest.raises(ValueError, match="secret"):  # it goes to the server's own log, too
        browser.ask(served, "/api/runs/seen")


def test_one_look_that_hangs_stops_nobody_else():
    over, hangs = threading.Event(), readers.Readers("the mount", 1, 2, 0.05)
    served = made(log_end=lambda *_: over.wait(60) and {}, logs=hangs)
    try:
        for _ in range(5):
            got = browser.ask(served, "/api/runs/seen/log")
            assert got.code == 503
            assert "did not answer" in got.text or "too many" in got.text
            assert browser.ask(served, "/api/runs").code == browser.ask(served, "/box").code == 200
        assert "too many are asking for the mount" in browser.ask(served, "/api/runs/seen/log").text
    finally:
        over.set()
