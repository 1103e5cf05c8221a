"""What a failure was about: a checkpoint or data, a hub or a service of its own, a file that was moved."""

import pytest

from corpus import judging
from runward.core import hosts

_STEPS = "step 1 | loss 2.0\nstep 2 | loss 1.9\nstep 3 | loss 1.8\n"


def _raised(exc: str, code: str, path: str = "/w/fit.py", where: str = "main") -> str:
    return f'Traceback (most recent call last):\n  File "{path}", line 7, in {where}\n    {code}\n{exc}\n'


_CRC = "zipfile.BadZipFile: Bad CRC-32 for file 'w.npy'"
_SHORT = "OSError: Unable to synchronously open file (truncated file: eof = 96, sblock->base_addr = 0, stored_eof = 2048)"


@pytest.mark.parametrize(
    "log",
    [
        _raised(_CRC, 'np.load("runs/a/step_900.npz")'),
        _raised(_CRC, "params = np.load(args.resume)"),
        _raised(_CRC, "blob = np.load(name)['w']", where="restore_weights"),
        _raised(_SHORT, 'h5py.File("ckpt_0400.h5")'),
        _raised("EOFError: Ran out of input", 'pickle.load(open("snapshot_12.pkl", "rb"))'),
        "INFO loading weights from run/last.h5\n" + _raised(_SHORT, "f = h5py.File(path)"),
        "Resuming from run/last.npz\n" + _raised(_CRC, "f = np.load(path)"),
        _raised(_CRC, 'z = np.load("best_model.npz")')
        .replace(_CRC, '  File "/v/numpy/lib/npyio.py", line 9, in __getitem__\n' + _CRC),
    ],
    ids=["name", "argument", "function", "h5", "pickle", "line-before", "resuming", "inside-numpy"],
)  # fmt: skip
def test_what_only_its_name_or_its_reader_tells_to_be_a_checkpoint_is_one(log: str) -> None:
    assert judging.answer(_STEPS + log) == ("checkpoint_corrupt", "resume_previous")


@pytest.mark.parametrize(
    "log",
    [
        _raised(_SHORT, 'h5py.File("corpus/part-3.h5")'),
        _raised(_CRC, 'np.load(f"shards/train_{i}.npz")'),
        "Resuming from run/last.npz\nresumed at step 90\n" + _raised(_CRC, "z = np.load(shard)"),
        "restoring optimizer state run/last.npz\n" + "reading rows\n" * 900 + _raised(_CRC, "np.load(shard)"),
    ],
    ids=["h5", "npz", "resumed", "long-ago"],
)
def test_the_same_words_of_a_data_set_stay_a_fault_of_the_data(log: str) -> None:
    assert judging.answer(log)[0] == "data_error"


def test_a_configuration_that_does_not_parse_is_no_damaged_data() -> None:
    error = "json.decoder.JSONDecodeError: Expecting ',' delimiter: line 4 column 3 (char 90)"
    assert judging.answer(_raised(error, 'json.load(open("zero2.json"))')) == ("config_error", "change")
    assert judging.answer(_raised(error, "row = json.loads(line)"))[0] == "data_error"


_GONE = "FileNotFoundError: [Errno 2] No such file or directory: '/out/{}'"


@pytest.mark.parametrize(
    ("before", "path", "cause"),
    [
        ("latest -> global_step900 (there: global_step600)\n", "global_step900/rank0.pt", "checkpoint_corrupt"),
        ("newest checkpoint marker says iter-40/state\n", "iter-40/state/model.bin", "checkpoint_corrupt"),
        ("latest -> global_step900\n", "global_step600/rank0.pt", "config_error"),
        ("latest loss 2.31\n", "global_step900/rank0.pt", "config_error"),
    ],
    ids=["link", "marker", "another", "no-pointer"],
)  # fmt: skip
def test_a_pointer_to_a_checkpoint_that_is_not_there_is_a_damaged_checkpoint(
    before: str, path: str, cause: str
) -> None:
    assert judging.answer(before + _raised(_GONE.format(path), "torch.load(ckpt)"))[0] == cause


def test_a_file_that_is_moved_and_is_gone_is_no_missing_data() -> None:
    gone = _GONE.format("last.tmp") + " -> '/out/last.bin'"
    assert judging.answer(_STEPS + _raised(gone, "os.replace(part, whole)")) == ("io_error", "hold")
    assert judging.answer(_STEPS + _raised(_GONE.format("rows.csv"), "rows = open(path)"))[0] == "data_error"


_POOL = "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='{}', port=443): Max retries exceeded with url: /x"


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        ("curl: (6) Could not resolve host: models.lab.internal\n", "network"),
        ("curl: (7) Failed to connect to 10.12.0.4 port 8081 after 2 ms: Couldn't connect to server\n", "network"),
        (_raised(_POOL.format("push.monitoring.svc.cluster.local"), "post(m)"), "network"),
        (_raised("urllib.error.URLError: <urlopen error timed out>", 'urlopen("http://192.168.3.4:80/s")'), "network"),
        (_raised("requests.exceptions.HTTPError: 502 Server Error: Bad Gateway for url: http://scorer:9000/s", "go()"), "network"),
        ("curl: (6) Could not resolve host: weights.example.org\n", "hub_network"),
        (_raised(_POOL.format("huggingface.co") + " (Caused by ProxyError('http://proxy.corp:80'))", "get(m)"), "hub_network"),
        (_raised("urllib.error.URLError: <urlopen error timed out>", 'urlopen("https://files.example.org/s")'), "hub_network"),
    ],
    ids=["internal", "address", "cluster", "code", "one-word", "public", "hub-by-proxy", "public-code"],
)  # fmt: skip
def test_a_host_of_the_runs_own_network_is_no_hub(log: str, cause: str) -> None:
    assert judging.answer(_STEPS + log) == (cause, "wait")


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("connecting to node7:9000", True),
        ("dial http://[::1]:8080/v1", True),
        ("http://user:pw@172.20.0.9/x", True),
        ("http://172.32.0.9/x", False),
        ("https://local.example.com/x", False),
        ("http://hf-mirror.internal/x", False),
        ("http://a.internal/x, https://b.example/y", False),
        ("nothing is named", False),
    ],
)
def test_which_hosts_are_of_the_runs_own_network(text: str, own: bool) -> None:
    assert hosts.own(text) is own


_FRAME = 'Traceback (most recent call last):\n  File "fit.py", line 7, in main\n    {}\n'


@pytest.mark.parametrize(
    ("source", "error", "cause", "action"),
    [
        ("item = feed.get()", "FileNotFoundError: [Errno 2] No such file or directory", "exception", "hold"),
        (
            "item = read(path)",
            "FileNotFoundError: [Errno 2] No such file or directory: 'a/b.txt'",
            "data_error",
            "change",
        ),
        (
            "net = build(load_config, weights)",
            "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, file not fully covered",
            "checkpoint_corrupt",
            "resume_previous",
        ),
        (
            "cfg = load_config(path)",
            "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
            "config_error",
            "change",
        ),
    ],
    ids=["no-name", "a-name", "a-setting-passed-on", "a-setting-read"],
)
def test_what_a_frame_only_passes_on_and_a_file_without_a_name_tell_nothing_of_it(
    source, error, cause, action
):
    found = judging.verdict(_FRAME.format(source) + error + "\n", exit_code=1)
    assert (found.cause, found.action) == (cause, action)


def test_memory_that_xla_asks_for_in_smaller_pieces_is_no_end():
    refused = "E0301 10:00:00.1 71 cuda_executor.cc:1365] [0] Failed to allocate device memory of {}GiB (7 bytes): RESOURCE_EXHAUSTED: : CUDA_ERROR_OUT_OF_MEMORY: out of memory\n"
    tried = refused.format(96) + refused.format(86)
    ended = _FRAME.format("params = rows[7]") + "KeyError: 7\n"
    assert judging.verdict(tried + ended, exit_code=1).cause == "exception"
    assert judging.verdict(tried, exit_code=1).cause == "gpu_oom"
