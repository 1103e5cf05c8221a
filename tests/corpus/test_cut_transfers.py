"""What a tool, a library or a server says of its connection tells more than what its reader makes of the rest."""

import pytest

from corpus import judging

_STEPS = "".join(f"step {n} | loss {3 - n / 100:.2f}\n" for n in range(10, 60, 10))
_PIPE = "<Pipe (('fetch s3://b/s-7.tar -',), {'shell': True, 'bufsize': 8192})>"


@pytest.fixture
def judged():
    def ask(log: str, code: int = 1) -> tuple[str, str, int | None]:
        found = judging.verdict(log, exit_code=code)
        return found.cause, found.action, found.rank

    return ask


def _short(source: str = _PIPE, rank: int = 3) -> str:
    lines = (
        "Traceback (most recent call last):",
        '  File "webdataset/tariterators.py", line 149, in tar_file_iterator',
        "    data = stream.extractfile(tarinfo).read()",
        f'tarfile.ReadError: ("unexpected end of data @ {source}", {source})',
    )
    return "".join(f"[rank{rank}]: {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("words", "cause", "action"),
    [
        ('download failed: s3://b/s-7.tar to - Connection was closed before we received a valid response from endpoint URL: "https://o.example"', "network", "wait"),
        ('download failed: s3://b/s-7.tar to - Read timeout on endpoint URL: "https://o.example"', "network", "wait"),
        ("download failed: s3://b/s-7.tar to - (\"Connection broken: ConnectionResetError(104, 'Connection reset by peer')\", ConnectionResetError(104))", "network", "wait"),
        ('ERROR "cat s3://b/s-7.tar": RequestError: send request failed caused by: Get "https://o.example/s-7.tar": EOF', "network", "wait"),
        ("curl: (18) transfer closed with 4081 bytes remaining to read", "hub_network", "wait"),
        ("curl: (22) The requested URL returned error: 503", "hub_network", "wait"),
        ("curl: (22) The requested URL returned error: 404", "data_error", "change"),
        ("download failed: s3://b/s-7.tar to - [Errno 32] Broken pipe", "data_error", "hold"),
        ("fetched 12 of 12 parts", "data_error", "hold"),
    ],
    ids=["closed", "silent", "reset", "request", "curl", "busy", "missing", "echo", "whole"],
)  # fmt: skip
def test_a_pipe_that_ends_early_ended_of_what_its_tool_says(
    judged, words: str, cause: str, action: str
) -> None:
    assert judged(f"{_STEPS}{words}\n{_short()}") == (cause, action, 3)


def test_a_transfer_that_was_made_good_is_not_why_a_later_file_is_short(judged) -> None:
    later = "".join(f"step {n} | loss 2.1\n" for n in range(60, 110, 10))
    log = f"{_STEPS}curl: (56) Recv failure: Connection reset by peer\n{later}"
    assert judged(log + _short("<_io.BufferedReader name='/data/a.tar'>")) == ("data_error", "hold", 3)
    assert judged(log + "Training complete\n", 0)[:2] == ("none", "none")


@pytest.mark.parametrize(
    ("code", "cause", "action"),
    [(6, "network", "wait"), (28, "network", "wait"), (92, "network", "wait"), (43, "network", "wait"),
     (60, "hub_network", "change"), (77, "hub_network", "change")],
)  # fmt: skip
def test_a_code_of_libcurl_tells_a_network_from_a_certificate(
    judged, code: int, cause: str, action: str
) -> None:
    error = f"AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: {code}, some words"
    log = f"ray.exceptions.RayTaskError(OSError): ray::Read() (pid=7, ip=10.0.0.1)\nOSError: When reading a key: {error}\n"
    assert judged(_STEPS + log)[:2] == (cause, action)


def test_a_store_that_fails_several_ranks_is_the_matter_of_none_of_them(judged) -> None:
    line = "OSError: AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 28, Timeout was reached\n"
    log = _STEPS + "".join(f"[rank{rank}]: {line}" for rank in range(4))
    assert judged(log)[0] == "network"
    assert judged(log)[2] is None


@pytest.mark.parametrize(
    "words",
    [
        "dgl._ffi.base.DGLError: [10:01:02] /src/socket_communicator.cc:240: Check failed: server_socket_->Bind(a, p) == true (0 vs. 1) :",
        "RuntimeError: Failed to bind to address [::]:50051; set GRPC_VERBOSITY=debug environment variable to see more.",
        "ERROR:    [Errno 99] error while attempting to bind on address ('10.9.9.9', 8000): cannot assign requested address",
    ],
    ids=["native", "grpc", "asyncio"],
)  # fmt: skip
def test_a_server_that_cannot_bind_wants_another_address(judged, words: str) -> None:
    assert judged(f"starting\n{words}\n")[:2] == ("rendezvous", "change")


@pytest.mark.parametrize(
    "words",
    [
        "Failed to bind to 0.0.0.0:8265, trying the next port",
        "bind on 10.0.0.1:30050 succeeded, failed binds: 0",
        "TensorBoard could not bind to port 6006, it was already in use",
    ],
    ids=["next-port", "bound", "beside"],
)
def test_a_server_that_found_a_port_has_failed_nothing(judged, words: str) -> None:
    assert judged(f"{words}\n{_STEPS}Training complete\n", 0)[:2] == ("none", "none")
    assert judged(f"{words}\nKeyError: 'mask'\n")[0] == "exception"
