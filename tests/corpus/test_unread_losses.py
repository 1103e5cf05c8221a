"""A loss that is no number in lines of a training that no rule knows, and lines that only look like that."""

import pytest

from corpus import judging


def _lines(*losses: str, form: str = "pass[{n}] part[{n}] 88.1 clips/sec, MaskLoss={loss}, rate=0.1") -> str:
    return "".join(form.format(n=n, loss=loss) + "\n" for n, loss in enumerate(losses, 3))


_LOST = ("4.1", "9.7", "nan", "nan", "nan")


@pytest.mark.parametrize(
    "form",
    [
        "pass[{n}] part[{n}] 88.1 clips/sec, MaskLoss={loss}, rate=0.1",
        "2031-02-03 10:11:12,131 round {n}: ctc_loss: {loss} speed 7.5",
        "#{n} generator/loss = {loss} at 3.1 img/s",
        "round {n} d_loss={loss} g_loss={loss} 2.0 s",
    ],
)
@pytest.mark.parametrize("given", [{"process": "running"}, {"exit_code": 1}, {"exit_code": 0}], ids=str)
def test_a_loss_of_any_name_that_stays_no_number_is_unstable(form: str, given: dict[str, object]) -> None:
    found = judging.judge(_lines(*_LOST, form=form), **given)
    assert (found.verdict.cause, found.verdict.action) == ("numerical_instability", "hold")
    assert "nan" in found.evidence[0].text


@pytest.mark.parametrize(
    "log",
    [
        _lines("4.1", "9.7", "nan"),
        _lines("nan", "nan", "4.1", "3.9"),
        _lines(*_LOST, form="pass {n} val_loss={loss} 2.0 s"),
        _lines(*_LOST, form="test pass {n}: mask_loss={loss} 2.0 s"),
        _lines(*_LOST, form="round {n} d_loss={loss} g_loss=0.3 2.0 s"),
        _lines(*_LOST, form="pass {n} loss_scale={loss} 2.0 s"),
        _lines(*_LOST, form="pass {n} mask_loss={loss}: part skipped"),
        _lines(*_LOST, form="settings: aux_loss={loss}"),
        _lines("nan", "nan", "nan") + _lines("3.1", form="round {n} total_loss={loss} 2.0 s"),
        _lines(*_LOST, form="step {n}/900 | loss 2.{n} | aux_loss={loss}"),
    ],
    ids=[
        "once",
        "behind",
        "validation",
        "test",
        "one-of-two",
        "scale",
        "skipped",
        "no-count",
        "other-finite",
        "known-lines",
    ],
)
def test_what_is_finite_again_or_no_loss_of_the_training_is_well(log: str) -> None:
    assert judging.answer(log, process="running") == ("none", "none")
