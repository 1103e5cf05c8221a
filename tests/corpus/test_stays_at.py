"""Live logs that go on while their step does not, saves that a full disk swallowed, and titles of commits."""

import pytest

from corpus import judging

_PACED = "".join(f"2031-05-02 10:00:{n:02d},000 INFO step {n}/900 loss 2.{n}\n" for n in range(10, 20))


def _still(seconds: list[int], words: str = "queue empty, still at step 19") -> str:
    return "".join(
        f"2031-05-02 10:{(19 + s) // 60:02d}:{(19 + s) % 60:02d},000 WARNING {words}\n" for s in seconds
    )


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (_PACED + _still([12, 24, 48, 90]), "dataloader"),
        (_PACED + _still([12, 24, 48, 90], "watch: stuck on step 19, no rank came"), "hang"),
        (_PACED + _still([12, 24, 48]), "none"),
        (_PACED + _still([12, 90]), "none"),
        (_PACED + _still([12, 24, 48, 90]) + "2031-05-02 10:02:10,000 INFO step 20/900 loss 2.1\n", "none"),
        (_PACED + _still([12, 24, 48, 90], "evaluating, still at step 19"), "none"),
        (_PACED + _still([12, 24, 48, 90], "still at step 19, shard 4/12"), "none"),
        (_PACED + "Saving model checkpoint to out/19\n" + _still([12, 24, 48, 90]), "none"),
        (_still([12, 24, 48, 90], "queue empty, still at step 0"), "none"),
        (_still([12, 124, 348, 790], "queue empty, still at step 0"), "dataloader"),
        (_PACED + _still([12]) + _still([24], "still at step 20") + _still([48, 90]), "none"),
    ],
    ids=["data", "ranks", "not-long", "twice", "went-on", "evaluates", "counts", "saves", "no-pace", "no-pace-long", "moves"],
)  # fmt: skip
def test_who_says_again_and_again_where_it_stands_hangs(log: str, cause: str) -> None:
    assert judging.verdict(log, process="running", silent_s=2).cause == cause


def test_by_its_own_words_it_stands_as_long_as_it_says() -> None:
    said = "".join(f"reader: nothing for {s} s, still at step 4\n" for s in (200, 400, 800))
    assert judging.verdict("step 3 loss 2.1\n" + said, process="running").cause == "dataloader"
    counted = "".join(f"reader: nothing for {s} s, still at step 4\n" for s in (800, 40, 80))
    assert judging.verdict("step 3 loss 2.1\n" + counted, process="running").cause == "none"


_FULL = "/dev/sdb1 112G 112G 0 100% /out"
_ENDS = "iter 90/100 loss 0.4\niter 100/100 loss 0.4\n"


@pytest.mark.parametrize(
    ("log", "df", "cause"),
    [
        (_ENDS + "Could not write snapshot of iteration 100\nTraining finished\n", _FULL, "disk_full"),
        (_ENDS + "export failed: short count\ndone\n", _FULL, "disk_full"),
        (_ENDS + "failed to save /out/a.pt\nsaved /out/b.pt\nTraining finished\n", _FULL, "none"),
        (_ENDS + "failed to save /home/a.pt\nTraining finished\n", _FULL + "\n/dev/sda 9G 2G 7G 20% /home", "none"),
        (_ENDS + "Could not write snapshot of iteration 100\nTraining finished\n", "/dev/sdb1 112G 70G 42G 62% /out", "none"),
        (_ENDS + "Training finished\n", _FULL, "none"),
    ],
    ids=["snapshot", "export", "later-saved", "elsewhere", "not-full", "nothing-failed"],
)  # fmt: skip
def test_exit_0_saves_nothing_where_the_last_save_failed_on_a_full_disk(
    log: str, df: str, cause: str
) -> None:
    found = judging.verdict(log, exit_code=0, df=df)
    assert (found.cause, found.action) == (cause, "hold" if cause == "disk_full" else "none")


_TITLES = "4be1c07 handle CUDA out of memory in sampling\n77aa0e2 srun: error: Node failure on n1: requeue\n"
_SHOWN = (
    "commit 5c05e06d3b3c3f0c8a1e9d7b6a5f4e3d2c1b0a99\nAuthor: A B <a@b>\nDate:   Thu Jan 2 10:00:00 2031 +0000\n\n"
    "    Restart on RuntimeError: CUDA error: an illegal memory access was encountered\n\n    No space left on device, too\n"
)


@pytest.mark.parametrize("titles", [_TITLES, _SHOWN, _SHOWN + "\n" + _SHOWN], ids=["short", "shown", "two"])
def test_titles_of_commits_accuse_nobody(titles: str) -> None:
    for known in ({"exit_code": 0}, {"process": "running"}, {"state": ""}):
        assert judging.verdict(titles + "loading\n", **known).cause == "none"
    assert judging.verdict(titles + "loading\n", exit_code=1).cause == "unknown"
    assert judging.answer(titles + "KeyError: 'lr'\n")[0] != "gpu_oom"


@pytest.mark.parametrize(
    "log",
    [
        "deadbe1 CUDA out of memory. Tried to allocate 2.00 GiB\n",
        "1234567 CUDA out of memory. Tried to allocate 2.00 GiB\n1234567 CUDA out of memory. Tried to allocate 2.00 GiB\n",
        _TITLES + "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n",
    ],
    ids=["one", "process-ids", "behind-titles"],
)
def test_what_looks_like_a_title_and_is_none_counts(log: str) -> None:
    assert judging.answer(log)[0] == "gpu_oom"


@pytest.mark.parametrize(
    ("behind", "cause"),
    [
        ("WARNING: no upload, the files are kept in ./mlruns\nmodel exported to m.onnx\nFinished.\n", "none"),
        ("WARNING: no upload, the files are kept in ./mlruns\n", "hub_network"),
        ("model exported to m.onnx\nFinished.\n", "hub_network"),
    ],
    ids=["told", "nothing-behind", "not-told"],
)
def test_an_upload_that_is_left_for_later_was_caught(behind: str, cause: str) -> None:
    log = (
        'loss 0.3\nTraceback (most recent call last):\n  File "fit.py", line 9, in <module>\n    track.end()\n'
        "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='m.lab', port=443): Max retries exceeded\n"
    )
    assert judging.verdict(log + behind, exit_code=0).cause == cause
