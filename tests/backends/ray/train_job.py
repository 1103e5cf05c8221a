"""The demo trainer as the one worker of a Ray Train job.

usage: train_job.py EXAMPLES STORE ARGUMENT...
"""

import sys

import ray.train
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer


def train(config):
    sys.path.insert(0, config["examples"])
    import demo_train

    sys.argv = ["demo_train.py", *config["argv"]]
    demo_train.main()


if __name__ == "__main__":
    examples, store = sys.argv[1], sys.argv[2]
    DataParallelTrainer(
        train,
        train_loop_config={"examples": examples, "argv": sys.argv[3:]},
        scaling_config=ray.train.ScalingConfig(num_workers=1),
        run_config=ray.train.RunConfig(storage_path=store),
    ).fit()
