"""Lines of real frameworks through the shipped rules into the tracker: what is the step, and what is none."""

import pathlib
import re

import pytest

from runward.config import rulesets
from runward.core import progress, samples, signals

RULES = [(rule, re.compile(rule.pattern.encode())) for rule in rulesets.load(user=False).rules]


def recognise(text):
    offset = 0
    for line in text.encode().replace(b"\r", b"\n").split(b"\n"):
        for rule, pattern in RULES:
            for found in pattern.finditer(line):
                groups = {name: value.decode() for name, value in found.groupdict().items() if value}
                yield (
                    signals.Signal(
                        rule.name,
                        rule.role,
                        line.decode(),
                        file="x.log",
                        offset=offset + found.start(),
                        fields=groups,
                    ),
                    rule,
                )
        offset += len(line) + 1


def follow(text, tracker=None):
    tracker = tracker or progress.Tracker()
    for index, (signal, rule) in enumerate(recognise(text)):
        sample = samples.from_signal(signal) if rule.role is signals.Role.PROGRESS else None
        if sample is not None:
            tracker = progress.observe(tracker, sample, float(index))
    return tracker


def lines(template, *values):
    return "\n".join(template.format(value) for value in values)


MEGATRON = (
    " [2026-03-02 21:11:19] iteration {:>8}/      60 | consumed samples:         1280 | elapsed time per iteration "
    "(ms): 2.3 | learning rate: 1.000000E-04 | global batch size:   256 | lm loss: 1.030369E+00 | loss scale: 1.0 | "
    "grad norm: 0.065 | number of skipped iterations:   0 | number of nan iterations:   0 |"
)
TITAN = "[rank0]:[titan] 2026-02-24 19:46:17,508 - root - INFO - step: {:2}  loss:  7.62585  grad_norm: 26.6  tps: 10,050"
HF = (
    "  2%|2         | 1/64 [00:01<01:16,  1.22s/it]\r 16%|#6        | 10/64 [00:01<00:07,  7.02it/s]\r"
    "{'loss': '6.824', 'grad_norm': '0.9421', 'learning_rate': '4.297e-05', 'epoch': '0.3125'}\n"
    " 31%|###1      | 20/64 [00:01<00:01, 22.33it/s]\r"
    "Writing model shards: 100%|##########| 1/1 [00:00<00:00, 198.61it/s]\n"
    "  0%|          | 0/128 [00:00<?, ?it/s]\r 50%|#####     | 64/128 [00:01<00:01, 60.1it/s]\r"
    "100%|##########| 128/128 [00:02<00:00, 60.1it/s]\r"
    "{'eval_loss': '6.1', 'eval_runtime': '1.2', 'epoch': '0.625'}\n"
    " 33%|###2      | 21/64 [00:05<00:01, 22.33it/s]\r"
    "{'loss': '6.7', 'grad_norm': '0.9', 'learning_rate': '4.0e-05', 'epoch': '0.65625'}\n"
)
LIGHTNING = "\r".join(
    f"Epoch {e}:  25%|##5       | {b}/4 [00:00<00:00, 100.00it/s, v_num=0, train_loss=0.300]"
    for e in (0, 1)
    for b in (0, 1, 2, 3, 4)
)
KERAS = (
    "Epoch 1/3\n\r 1/10 [==>....] - ETA: 1s - loss: 0.69\r 10/10 [=====] - 1s - loss: 0.50 - val_loss: 0.4\n"
    "Epoch 2/3\n\r 4/10 [==>....] - ETA: 1s - loss: 0.40"
)
VERL = (
    "(TaskRunner pid=1) step:33 - actor/pg_loss:0.04 - actor/grad_norm:0.1\n"
    "(TaskRunner pid=1) Training Progress:   5%|5         | 33/624 [1:00:00<103:53:21, 600.32s/it]\n"
    "(TaskRunner pid=1) step:34 - actor/pg_loss:0.05 - actor/grad_norm:0.1\n"
    "(TaskRunner pid=1) Training Progress:   5%|5         | 34/624 [1:10:00<103:53:21, 600.32s/it]"
)


@pytest.mark.parametrize(
    ("text", "first", "step", "total", "unit", "loss"),
    [
        (lines(MEGATRON, 5, 10, 15), 5, 15, 60, "iteration", 1.030369),
        (lines(TITAN, 1, 10, 20), 1, 20, None, "step", 7.62585),
        (HF, 1, 21, 64, "step", 6.7),
        (LIGHTNING, 1, 8, None, "batch", 0.3),
        (KERAS, 1, 14, None, "batch", 0.4),
        (
            lines("[2026-03-02 10:00:00,123] [INFO] [logging.py:107:log_dist] [Rank 0] step={}, skipped=0, lr=[1e-05],", 10, 20),
            10,
            20,
            None,
            "step",
            None,
        ),
        (VERL, 33, 34, 624, "step", 0.05),
        (lines("completed step: {}, seconds: 3.1, TFLOP/s/device: 2.3, Tokens/s/device: 26.6, total_weights: 6, loss: 9.8", 0, 1), 0, 1, None, "step", 9.8),
        (lines("Train: 2 [  {}/1251 (  4%)]  Loss: 6.942 (6.95)  Time: 0.401s", 50, 100), 2552, 2602, None, "batch", 6.942),
        (lines("Epoch [2/5], Step [{}/600], Loss: 2.2021", 100, 200), 700, 800, 3000, "batch", 2.2021),
        (lines("step {}/100 loss=2.31", 1, 2, 12), 1, 12, 100, "step", 2.31),
        (lines("Step: {}", 1, 2, 12), 1, 12, None, "step", None),
        (lines("iter {}: loss 2.4519, time 123.45ms, mfu 41.20%", 0, 10), 0, 10, None, "iteration", 2.4519),
        (lines("[{}/100] lr 1e-4 loss 2.31", 11, 12), 11, 12, 100, "step", 2.31),
        (lines("epoch 3, step {}, loss 0.5", 50, 100), 50, 100, None, "step", 0.5),
    ],
)  # fmt: skip
def test_the_step_of_each_framework(text, first, step, total, unit, loss):
    tracker = follow(text)
    span = tracker.span()
    assert (span.first_step, span.last_step, span.total, span.unit) == (first, step, total, unit)
    assert tracker.loss.last == loss


@pytest.mark.parametrize(
    "text",
    [
        "  train_iters ..................................... 500000\n  log_interval .................................... 5",
        "max_steps: 1000\nsave_steps: 500\nlogging_steps: 10\nwarmup_steps: 100\neval_steps: 50",
        "{'step_size': 30, 'gamma': 0.1, 'warmup_step': 10}",
        "optimizer:\n  step: 100\n  lr: 0.1",
        "2026-03-02 10:00:00 INFO starting on 2026/03/02",
        "lr schedule: step 0 -> 1e-4, step 1000 -> 5e-5\nstep    lr\n0     1e-4\n1000  5e-5",
        "Downloading: 12/100",
        "Downloading shards:  50%|#####     | 2/4 [00:10<00:10,  5.00s/it]",
        "Map:  10%|#         | 1000/10000 [00:00<00:01, 8000.00 examples/s]",
        "model.safetensors:  12%|#2        | 120M/1.00G [00:01<00:08, 110MB/s]",
        "Loading checkpoint shards: 100%|##########| 4/4 [00:03<00:00,  1.20it/s]",
        "Epoch 3/10\nEpoch 4/10",
        "Epochs:  20%|##        | 2/10 [10:00<40:00, 300.00s/it]",
        "  successfully saved checkpoint at iteration      10 to /data/ckpt\nsaving checkpoint at step 20",
        " validation loss at iteration 100 | lm loss value: 2.3E+00 | lm loss PPL: 9.9E+00 |",
        "resumed from step 20",
        "[1/14] Building CXX object loss.o\n[2/14] Linking",
        "time per step: 12 ms, total step 500 loss",
    ],
)
def test_what_is_no_step(text):
    assert follow(text).step is None


def test_a_health_line_about_nan_is_no_alarm_and_hugging_faces_zero_loss_is():
    healthy = follow(lines(MEGATRON, 5, 10, 15, 20))
    assert not healthy.loss.nonfinite
    sick = follow(
        lines("{{'loss': '0', 'grad_norm': 'nan', 'learning_rate': '4e-05', 'epoch': '{}'}}", 0.1, 0.2, 0.3)
    )
    assert sick.loss.nonfinite
    assert not follow(
        lines("{{'loss': '0', 'grad_norm': 'nan', 'epoch': '{}'}}", 0.1, 0.1, 0.2)
    ).loss.nonfinite


def test_memory_that_the_training_printed_is_kept():
    tracker = follow("GPU 0: 12.34GB allocated, 20.00GB reserved\nGPU 1: 1GiB allocated, 2GiB reserved")
    assert [(item.gpu, item.allocated_bytes, item.reserved_bytes) for item in tracker.memory] == [
        (0, 12_340_000_000, 20_000_000_000),
        (1, 2**30, 2**31),
    ]


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("  successfully loaded checkpoint from /data/ckpt [ t 1/2, p 1/1 ] at iteration 60", "60"),
        ("  Continuing training from global step 20", "20"),
        ("Restored all states from the checkpoint at logs/epoch=0-step=20.ckpt", None),
        ("resumed from step 20", "20"),
        ("[titan] 2026-02-24 19:46:17,508 - root - INFO - Loading the checkpoint from out/step-20.", "20"),
    ],
)
def test_from_where_a_training_went_on_is_read(text, step):
    found = [
        signal.fields.get("step") for signal, rule in recognise(text) if rule.role is signals.Role.RESUME
    ]
    assert step in found


FIXTURES = pathlib.Path(__file__).parents[1] / "fixtures" / "progress"


@pytest.mark.parametrize(
    ("name", "first", "step", "total", "unit"),
    [("hf_trainer_eval", 1, 24, 24, "step"), ("lightning_tqdm", 1, 30, None, "batch")],
)
def test_real_logs_with_evaluations_larger_than_the_training(name, first, step, total, unit):
    text = (FIXTURES / f"{name}.log").read_text(encoding="utf-8")
    span = follow(text).span()
    assert (span.first_step, span.last_step, span.total, span.unit) == (first, step, total, unit)
    assert any(rule.role is signals.Role.END_MARK for _, rule in recognise(text))


JUNK = (
    "step 1 ",
    "epoch 1 step 1 ",
    "iter 1 ",
    "[1/2] ",
    "loss ",
    "iteration 5/ 60 | ",
    "'loss': 1 ",
    "1%|x| 1/2 [",
)


@pytest.mark.parametrize("junk", JUNK)
def test_no_pattern_hangs_on_a_long_line_of_its_own_words(junk):
    # A pattern that backtracks without bound takes minutes here: the suite's own time limit is the check.
    for tail in ("", " loss: 3", " it/s"):
        assert sum(1 for _ in recognise((junk * 4096)[:4000] + tail)) >= 0


def test_cutting_the_lines_anywhere_changes_nothing():
    text = lines(MEGATRON, *range(1, 30)) + "\n" + HF
    whole = follow(text)
    for cut in range(0, len(text), 997):
        half = text.rfind("\n", 0, cut) + 1
        tracker = progress.Tracker()
        seen = list(recognise(text))
        for signal, rule in [*(s for s in seen if (s[0].offset or 0) < half), *seen]:
            sample = samples.from_signal(signal) if rule.role is signals.Role.PROGRESS else None
            if sample is not None:
                tracker = progress.observe(tracker, sample, 0.0)
        assert tracker.span() == whole.span()
