"""Files of the data that do not decode, and shared memory that is too small, in the words of many libraries."""

import pytest

from corpus import judging

_STEPS = "".join(f"step {step}/900 | loss 2.{step}\n" for step in range(1, 4))
_OPEN = 'Traceback (most recent call last):\n  File "fit.py", line 7, in step\n'


def _guess(text: str, before: str = _STEPS, **context: object) -> tuple[str, int | None]:
    said = "".join(f"[rank2]: {line}\n" for line in (_OPEN + text).splitlines())
    found = judging.verdict(before + said, **(context or {"exit_code": 1}))
    return found.cause, found.rank


@pytest.mark.parametrize(
    "text",
    [
        'RuntimeError: Critical error in pipeline:\nError when executing Mixed operator decoders__Image encountered:\nError in thread 0: [/opt/dali/a.h:2] [/opt/dali/jpeg_mem.cc:17] Assert on "jpeg_start_decompress(&cinfo)" failed. File: /d/a.JPEG\nCurrent pipeline object is no longer valid.',
        'RuntimeError: Critical error in pipeline: [/opt/dali/image_factory.cc:8] Assert on "CheckIsPNG(encoded_image, length) + CheckIsBMP(encoded_image, length) == 1" failed: Encoded image has ambiguous format',
        'RuntimeError: Critical error in pipeline: Error in thread 0: [/opt/dali/nvjpeg_decoder.h:3] NVJPEG error "4"',
        "RuntimeError: Error in CPU operator `nvidia.dali.fn.decoders.image`,\nencountered:\n\nError in thread 3: [/opt/dali/imgcodec.cc:9] Failed to decode a JPEG: /d/x.JPEG",
        "tensorflow.python.framework.errors_impl.InvalidArgumentError: Invalid JPEG data or crop window, data size 368",
        "tensorflow.python.framework.errors_impl.InvalidArgumentError: Unknown image file format. One of JPEG, PNG, GIF, BMP required.",
        "tensorflow.python.framework.errors_impl.InvalidArgumentError: Input is empty. [[{{node decode_image/DecodeImage}}]]",
        "RuntimeError: Image is incomplete or truncated",
        "mxnet.base.MXNetError: src/io/image_io.cc:2: Check failed: !res.empty(): Decoding failed. Invalid image file.",
        "mxnet.base.MXNetError: src/recordio.cc:5: Check failed: p[0] == RecordIOWriter::kMagic Invalid RecordIO File",
        "RuntimeError: map operation: [Decode] failed. The corresponding data file is: /d/x.JPEG. Error description:",
        "RuntimeError: Failed to decode audio.",
        "RuntimeError: Error loading audio file: failed to open file /d/a.flac",
        "OSError: Corrupt snappy compressed data.",
        "RuntimeError: Failed to decompress shard /d/shard.12.mds.zstd: Data corruption detected",
    ],
    ids=["dali", "dali-format", "nvjpeg", "dali-imgcodec", "tf-jpeg", "tf-format", "tf-empty", "torchvision", "mxnet", "recordio", "mindspore", "audio", "audio-file", "parquet", "mds"],
)  # fmt: skip
def test_a_file_that_does_not_decode_is_a_fault_of_the_data(text: str) -> None:
    assert _guess(text) == ("data_error", 2)


@pytest.mark.parametrize(
    "text",
    [
        "SystemError: (Fatal) DataLoader process (pid   1. If run DataLoader by DataLoader.from_generator(...), queue capacity is set.\n  3. If so set it) exited is killed by signal: 1104.\n  It may be caused by insufficient shared storage space.",
        "RuntimeError: (Unavailable) Memory map failed when create shared memory.\n  [Hint: Expected ptr != ((void *) -1).]",
        "mxnet.base.MXNetError: Check failed: ptr != MAP_FAILED : Failed to map shared memory. mmap failed with error Cannot allocate memory",
        "RuntimeError: Shared memory of size 8388608 can not be allocated, not enough space in /dev/shm",
        "OSError: [Errno 28] No space left on device: '/psm_5a1b2c3d'",
        '  File "/usr/lib/python3.11/multiprocessing/heap.py", line 82, in __init__\n    os.ftruncate(self.fd, size)\nOSError: [Errno 28] No space left on device',
        '  File "/opt/e/torch/multiprocessing/reductions.py", line 4, in reduce_storage\n    fd, size = storage._share_fd_cpu_()\n  File "/opt/e/torch/storage.py", line 9, in _share_fd_cpu_\nOSError: [Errno 28] No space left on device',
    ],
    ids=["paddle", "paddle-map", "mxnet", "mindspore", "shared-memory", "heap", "torch"],
)
def test_no_space_for_shared_memory_is_no_full_disk(text: str) -> None:
    assert _guess(text) == ("shm", 2)


def test_a_full_disk_beside_a_frame_of_a_heap_of_another_kind_stays_one() -> None:
    assert (
        _guess('  File "/w/heap.py", line 8, in push\nOSError: [Errno 28] No space left on device')[0]
        == "disk_full"
    )
    assert _guess("ValueError: failed to decode image config: unexpected end")[0] != "data_error"


_WAITS = "(EngineCore pid=77) INFO 06-21 {:02d}:{:02d}:44 [shm_broadcast.py:548] No available shared memory broadcast block found in 60 seconds. This typically happens when\n"


@pytest.mark.parametrize(("minutes", "cause"), [(3, "none"), (40, "hang")], ids=["for-a-moment", "for-long"])
def test_a_live_run_that_makes_no_step_while_a_process_waits_hangs(minutes: int, cause: str) -> None:
    waits = "".join(_WAITS.format(1 + minute // 60, minute % 60) for minute in range(minutes))
    assert judging.verdict(_STEPS + waits, process="running", silent_s=60).cause == cause
    later = "".join(f"step {step}/900 | loss 2.1\n" for step in range(4, 7))
    assert judging.verdict(_STEPS + waits + later, process="running", silent_s=6).cause == "none"


def test_waiting_before_the_first_step_may_last_an_hour() -> None:
    waits = "".join(_WAITS.format(1 + minute // 60, minute % 60) for minute in range(40))
    assert judging.verdict(waits, process="running", silent_s=60).cause == "none"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("EOFError: Ran out of input", "checkpoint_corrupt"),
        ('ValueError: OUT_OF_RANGE: Error reading local file "/ck/9/d/ab": Requested byte range [0, 4096) is not valid', "checkpoint_corrupt"),
        ("ValueError: The file /ck/model.pdparams is broken: pickle data was truncated", "checkpoint_corrupt"),
        ("tensorflow.python.framework.errors_impl.NotFoundError: Key dense_1/kernel not found in checkpoint", "checkpoint_mismatch"),
    ],
    ids=["pickle", "orbax", "paddle", "tensorflow"],
)  # fmt: skip
def test_what_does_not_read_after_a_load_was_announced_is_the_checkpoint(text: str, cause: str) -> None:
    assert _guess(text, "Loading checkpoint from /ck/step-900\n") == (cause, 2)


def test_shards_of_a_model_that_load_announce_no_resume() -> None:
    shards = "Loading checkpoint shards:  33%|###3      | 1/3 [00:01<00:02,  1.1s/it]\n"
    assert _guess("EOFError: Ran out of input", shards)[0] == "data_error"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("OSError: ((['curl', '-s', 'https://h/s-0.tar'],), {}): exit 18 (read) @ 4096 None", "network"),
        ("OSError: ('aws s3 cp s3://b/s-0.tar -', {}): exit 1 (read) {} @ 4096 None", "network"),
        ("ValueError: didn't find ['jpg'] in ['__key__', 'txt'].", "data_error"),
        ("RuntimeError: MLU out of memory. Tried to allocate 2.00 GiB (MLU 0; 24 GiB total capacity)", "gpu_oom"),
        ("RuntimeError: Out of Memory!!! Request memory size: 8, Memory Statistic: Device HBM memory size: 9M", "gpu_oom"),
        ("RuntimeError: nrt_execute status=1202 NRT_HW_ERR_HBM_UE", "gpu_hardware"),
    ],
    ids=["curl", "aws", "webdataset", "mlu", "mindspore", "neuron"],
)  # fmt: skip
def test_words_of_further_libraries_say_what_failed(text: str, cause: str) -> None:
    assert _guess(text) == (cause, 2)


def test_a_rank_that_begins_to_load_after_another_one_failed_to_begins_no_new_attempt() -> None:
    def said(rank: int, text: str) -> str:
        return "".join(f"[rank{rank}]: {line}\n" for line in text.splitlines())

    load, fault = "Loading checkpoint from /ck/step-900", said(2, _OPEN + "EOFError: Ran out of input")
    log = said(2, load) + said(1, load) + fault + said(0, load)
    assert judging.verdict(log, exit_code=1).rank == 2
    again = log + _STEPS + fault + said(0, load) + said(1, load) + said(1, _OPEN + "KeyError: 'mask'")
    assert judging.verdict(again, exit_code=1).rank == 1


@pytest.mark.parametrize(
    "line",
    [
        "failed to decode image /d/x.jpg, skipping",
        "Failed to decode audio clip 77.flac; sample skipped",
        "image file is truncated: /d/x.jpg (ignored)",
        "Corrupt JPEG data: 2 extraneous bytes before marker 0xd9",
        "OSError: ('aws s3 cp s3://b/s-0.tar -', {}): exit 1 (read) {} @ 4096 None -- retrying shard",
        "failed to connect to rank 3, retrying in 5 s",
        "connection to rank 3 timed out, reconnecting",
        "rank 3 disconnected; re-forming the group with 3 ranks",
        "[100.500000] EDAC MC0: 1 CE memory read error on CPU_SrcID#0",
        "[100.500000] nvidia-nvswitch1: SXid (PCI:0000:aa:00.0): 12028, Severity 0 Engine instance 3",
        "[100.500000] traps: bash[77] general protection fault ip:7f sp:7e error:0 in libc.so.6",
    ],
)
def test_what_a_live_run_passed_over_is_no_failure_of_it(line: str) -> None:
    assert judging.verdict(f"{_STEPS}{line}\n", process="running", silent_s=4, gpu_util=95).cause == "none"
