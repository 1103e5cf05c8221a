"""Write the dumps beside this file with PyTorch's own flight recorder (any build, over gloo):

    TORCH_FR_BUFFER_SIZE=100 torchrun --nproc-per-node=2 make.py OUT

Rank 1 leaves out the last all-reduce; rank 0 waits in it.
"""

import os
import sys
import threading
import time

import torch
import torch._C._distributed_c10d as c10d
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
for _ in range(4):
    dist.all_reduce(torch.ones(4))
if rank == 0:
    threading.Thread(target=lambda: dist.all_reduce(torch.ones(4)), daemon=True).start()
time.sleep(3)
with open(f"{sys.argv[1]}/trace_rank_{rank}", "wb") as file:
    file.write(c10d._dump_fr_trace(True, False, False))
time.sleep(3)
os._exit(0)
