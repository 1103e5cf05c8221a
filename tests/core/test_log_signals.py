"""What each signal of the packaged presets matches, and that a healthy run gives no crash."""

import re

import hypothesis
import pytest
from hypothesis import strategies as st

from runward.config import autoexp_files
from runward.core import log_matching, log_signals

HEALTHY = [
    " [2025-11-02 08:15:31] iteration      120/   5000 | consumed samples:        30720 | elapsed time per iteration (ms): 1834.2 | throughput per GPU (TFLOP/s/GPU): 211.4 | learning rate: 1.440000E-05 | global batch size:   256 | lm loss: 9.871452E+00 | loss scale: 1.0 | grad norm: 2.317 | number of skipped iterations:   0 | number of nan iterations:   0 |",
    " [2025-11-02 08:15:33.104277] iteration      121/   5000 | consumed samples:        30976 | lm loss: 9.853011E+00 | loss scale: 1.0 | grad norm: 2.290 | number of skipped iterations:   0 | number of nan iterations:   0 |",
    "  check_for_nan_in_loss_and_grad .................. True",
    "  overlap_p2p_comm ................................ True and error handling is on",
    "it is recommended to call clip_grad_norm_ with error_if_nonfinite=True",
    "transaction committed, error_count=0",
    "connection pool ready, no errors; socket buffers: 0 errors",
    "validation loss at iteration 1000 on validation set | lm loss value: 2.81E+00 | lm loss PPL: 1.66E+01 |",
    "Disabling parallelism to avoid deadlocks... set TOKENIZERS_PARALLELISM=(true | false)",
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    "CUDA version changed to 12.4, driver unchanged",
    "node7:311:311 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.",
    "node7:311:311 [0] NCCL INFO Connected all rings",
]

# signal, presets that have it, lines that give it, fields of the first line
TABLE = [
    ("validation_complete", "b", ["validation loss at iteration 5000 on test set | lm loss value: 2.301E+00 | lm loss PPL: 9.98 |"], {"validation_loss": "2.301E+00"}),
    ("checkpoint_saved", "b", ["  successfully saved checkpoint from iteration     500 to /scratch/run/ckpt [ t 1/1, p 1/1 ]"], {"checkpoint_iteration": "500", "checkpoint_path": "/scratch/run/ckpt"}),
    ("training_iteration", "b", HEALTHY[:2], {"current_iteration": "120", "total_iterations": "5000", "loss": "9.871452E+00"}),
    ("cuda_oom", "b", ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has", "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB", "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.1 GiB"], {"allocation_size": "2.50 GiB"}),
    ("torch_error", "b", ["torch.OutOfMemoryError: CUDA out of memory"], {"error_class": "OutOfMemoryError", "error_message": "CUDA out of memory"}),
    ("python_exception", "b", ["RuntimeError: shape mismatch", "KeyError: 'tokens'"], {"exception_type": "RuntimeError", "error_message": "shape mismatch"}),
    ("cpu_oom", "p", ["OSError: [Errno 12] Cannot allocate memory", "MemoryError", "numpy._core._exceptions._ArrayMemoryError: Unable"], {"error_message": "Cannot allocate memory"}),
    ("nccl_error", "pn", ["[default0]:NCCL ERROR timeout", "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1691, unhandled system error", "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:317, internal error"], {"error_message": "timeout"}),
    ("nccl_warning", "n", ["node1:12:34 [0] misc/socket.cc:49 NCCL WARN Connect to 10.0.0.1 refused"], {"warning_message": "Connect to 10.0.0.1 refused"}),
    ("nccl_timeout", "pn", ["[rank3]:[E ProcessGroupNCCL.cpp:607] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77)"], {"timeout_details": ": WorkNCCL(SeqNum=77)"}),
    ("watchdog_timeout", "pns", ["[rank3]:[E ProcessGroupNCCL.cpp:607] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77)"], None),
    ("processgroup_timeout", "ps", ["[c10d] wait timeout after 1800 s", "[W socket.cpp:1] [c10d] The client socket has timed out after 60s while trying to connect"], None),
    ("communication_error", "pn", ["transport: connection to rank 3 failed", "socket error 104", "comm abort by remote peer"], {"error_message": "connection to rank 3 failed"}),
    ("nccl_collective_fail", "n", ["NCCL AllReduce failed on rank 2"], {"error_message": "NCCL AllReduce failed on rank 2"}),
    ("loss_nan", "p", ["iteration 7 | lm loss: nan | grad norm: 3", "loss became NaN", "found NaN in local forward loss calculation"], {"error_message": "loss: nan"}),
    ("loss_invalid", "s", ["iteration 7 | lm loss: inf | grad norm: 3", "loss: NaN"], {"error_message": "loss: inf"}),
    ("gradient_nan", "p", ["rank 3: found NaN in local grad norm"], {"warning_message": "NaN in local grad norm"}),
    ("gradient_invalid", "s", ["rank 3: Inf in gradient of layer 4"], {"warning_message": "Inf in gradient of layer 4"}),
    ("cuda_hang", "ps", ["[default0]:CUDA device-side assert detected in kernel execution", "CUDA kernel seems stuck"], None),
    ("deadlock", "ps", ["possible deadlock between streams", "DEADLOCK detected"], {"error_message": "deadlock between streams"}),
]  # fmt: skip

PRESETS = {
    "b": ["megatron_basic", "megatron_nccl", "megatron_stall_detection", "megatron_production", "megatron_checkpoint_eval"],
    "p": ["megatron_production", "megatron_checkpoint_eval"],
    "n": ["megatron_nccl"],
    "s": ["megatron_stall_detection"],
}  # fmt: skip

MONITORS = {name: autoexp_files.monitoring(name) for name in PRESETS["b"]}
MATCHERS = {name: log_matching.Matcher(monitor.signals) for name, monitor in MONITORS.items()}


@pytest.mark.parametrize(("signal", "where", "lines", "fields"), TABLE, ids=[row[0] for row in TABLE])
def test_each_signal_matches_what_its_table_says(signal, where, lines, fields):
    for preset in (name for letter in where for name in PRESETS[letter]):
        for i, line in enumerate(lines):
            found = {m.signal.name: m for m in MATCHERS[preset].line(line)}
            assert signal in found, (preset, line)
            if fields is not None and i == 0:
                assert fields.items() <= found[signal].fields.items()


@pytest.mark.parametrize("preset", MATCHERS)
@pytest.mark.parametrize("line", HEALTHY)
def test_a_healthy_run_gives_no_signal_but_progress(preset, line):
    assert {m.signal.name for m in MATCHERS[preset].line(line)} <= {"training_iteration"}


@pytest.mark.parametrize("preset", MATCHERS)
def test_an_error_of_nccl_gloo_or_a_store_inside_an_exception_is_no_exception_of_the_code(preset):
    others = [
        "torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 1/2 clients joined.",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer",
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 0",
    ]
    for line in TABLE[7][2][1:] + others:
        names = {m.signal.name for m in MATCHERS[preset].line(line)}
        assert not names & {"python_exception", "torch_error"}


def test_a_cuda_oom_is_no_host_oom():
    names = {m.signal.name for m in MATCHERS["megatron_production"].line(TABLE[3][2][0])}
    assert names == {"cuda_oom", "torch_error"}


def test_lines_are_counted_and_long_ones_are_bounded():
    matcher = MATCHERS["megatron_production"]
    lines = ["ok\n", "x" * (1 << 20) + " NCCL ERROR far away\n", "10%|#\rKeyError: 'a'\r\n"]
    assert [(m.signal.name, m.line) for m in matcher.lines(lines)] == [("python_exception", 3)]


def test_without_signals_the_built_in_ones_hold():
    monitor = log_signals.Monitor()
    matcher = log_matching.Matcher(monitor.signals)
    lines = ["ERROR: disk gone", "Checkpoint saved to /c/1", "Training complete", "mirror errors: 0"]
    found = [(m.signal.name, dict(m.fields)) for m in matcher.lines(lines)]
    assert found == [
        ("error", {"error_message": "disk gone", "error_kind": "ERROR"}),
        ("checkpoint", {"checkpoint_path": "/c/1"}),
        ("training_complete", {"matched": "Training complete"}),
    ]
    assert log_signals.Monitor("NullMonitor").signals == ()


TEXTS = [
    "",
    "loss: nan",
    "x ΑLLREDUCE",
    "NCCL AllReduce failed",
    *HEALTHY,
    *(line for row in TABLE for line in row[2]),
]


@pytest.mark.parametrize("preset", MATCHERS)
def test_looking_for_required_text_first_changes_no_answer(preset):
    for signal in MONITORS[preset].signals:
        pattern = log_matching.compiled(signal)
        for text in TEXTS:
            found = any(True for _ in log_matching.Matcher([signal]).line(text))
            assert found == (pattern.search(text) is not None), (signal.name, text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(?i)STRASSE", "strasse"),
        ("caf[é]teria", "the caféteria"),
        (r"\u0041bcdef", "xAbcdef"),
        ("(?i)kelvin", "\u212aelvin"),
    ],
)
def test_patterns_beyond_ascii_are_searched_in_every_line(pattern, text):
    signal = log_signals.LogSignal("s", pattern)
    assert [m.signal.name for m in log_matching.Matcher([signal]).line(text)] == ["s"]


@pytest.mark.parametrize("preset", MATCHERS)
def test_gaps_inside_packaged_patterns_are_bounded(preset):
    unbounded = re.compile(r"(?:(?<!\\)\.|\[\^\|\])[*+](?![)|]|$)")
    for signal in MONITORS[preset].signals:
        assert not unbounded.search(signal.pattern), signal


SIGNALS = [
    *{one.name: one for monitor in MONITORS.values() for one in monitor.signals}.values(),
    log_signals.LogSignal("any", r"\w\d\b"),
    log_signals.LogSignal("low", r"(?i)\bwatchdog (?P<x>\w+)"),
    log_signals.LogSignal("start", r"^(?:step|epoch) .*nan"),
    log_signals.LogSignal("plain", "loss: nan", "substring"),
]
PARTS = sorted(
    {
        "loss",
        "nan",
        "grad",
        "found NaN in ",
        "step 4",
        "epoch ",
        "WatchDog ",
        "no deadlock",
        "\u0130",
        "|",
        " ",
        ": ",
        "error",
    }
    | {text for one in SIGNALS for text in log_matching._Hint.of(one).texts}
    | {text for one in SIGNALS for text, _ in log_matching._heads(one)}
)


@hypothesis.given(st.lists(st.lists(st.sampled_from(PARTS), max_size=8).map("".join), max_size=12))
def test_many_lines_at_once_give_what_each_pattern_finds_in_each_line(lines):
    matcher = log_matching.Matcher(SIGNALS)
    plain = [(one, log_matching.compiled(one)) for one in SIGNALS]
    expected = [
        (place, one.name, found.group(0) if (found := pattern.search(line)) else None)
        for place, line in enumerate(lines)
        for one, pattern in plain
        if pattern.search(line)
    ]
    ready = {one.signal.name: one for one in matcher._ready}
    found = list(matcher.many(list(enumerate(lines))))
    assert [(n, m.signal.name, ready[m.signal.name].search(m.text).group(0)) for n, m in found] == expected
    last = {m.signal.name: n for n, m in found}
    assert {m.signal.name: n for n, m in matcher.last(list(enumerate(lines)))} == last
