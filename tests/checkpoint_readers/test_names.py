import pytest

from runward.checkpoint_readers import names


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("step_20", 20),
        ("step-5", 5),
        ("global_step100", 100),
        ("global_step_7", 7),
        ("checkpoint-500", 500),
        ("iter_0000100", 100),
        ("epoch=3-step=300.ckpt", 300),
        ("epoch=0-step=10-v1.ckpt", 10),
        ("model--val_loss=0.20-step=100-consumed_samples=8.0.ckpt", 100),
        ("checkpoint-epoch3-step500", 500),
        ("gpt-step1000.pt", 1000),
        ("model_100.pt", 100),
        ("step_22.json", 22),
        ("step_30.pt.quarantined", 30),
        ("epoch=3-val_loss=0.25.ckpt", None),
        ("epoch_4", None),
        ("last.ckpt", None),
    ],
)
def test_the_step_is_read_from_the_name_and_an_epoch_is_no_step(name, step):
    assert names.step_of(name) == step


@pytest.mark.parametrize(
    "name",
    [
        "step_20.tmp",
        "step_20_tmp",
        "step_10.tmp.1234",
        "tmp-checkpoint-500",
        ".step_3",
        ".fault-done",
        "step_20.orbax-checkpoint-tmp-12",
        "global_step20.bak",
        "notes.txt",
        "events.out.tfevents.1",
        "optimizer.pt",
        "rng_state_3.pth",
        "model-00001-of-00003.safetensors",
        "step_20_metrics.json",
        "step_20.log",
        "latest",
    ],
)
def test_temporary_and_foreign_names_are_no_checkpoints(name):
    assert not names.is_file_checkpoint(name)


@pytest.mark.parametrize(
    "name", ["step_5", "step_5.pt", "epoch=1-step=2.ckpt", "last.ckpt", "best.pt", "ck_1_step_3"]
)
def test_single_files_are_checkpoints(name):
    assert names.is_file_checkpoint(name)
