"""Training with several processes works without a GPU, and can be resumed.

Two faults of fairseq/distributed/utils.py:

- ``_infer_torch_distributed_launch_init`` divides by the number of GPUs, so ``torchrun`` fails on a machine without
  one. Here such a process trains on the CPU.
- ``_broadcast_object_slow`` sends a checkpoint's state as a file of ``torch.save``. The others load it with
  ``torch.load``, and torch >= 2.6 refuses fairseq's classes in it, so no training resumes. Here torch's own broadcast
  sends the object. That is safe: the first process has loaded it from the checkpoint with torch's check.
"""

import os
from typing import Any

import torch
from fairseq.dataclass.configs import DistributedTrainingConfig
from fairseq.distributed import utils as distributed_utils

fairseq_launch_init = distributed_utils._infer_torch_distributed_launch_init


def patch_distributed() -> None:
    """Replaces the two functions of fairseq by those below."""
    distributed_utils._broadcast_object_slow = broadcast_object
    distributed_utils._infer_torch_distributed_launch_init = launch_init


def broadcast_object(obj: Any, src_rank: int, group: Any, dist_device: torch.device) -> Any:
    """Sends an object from one process to the others of a group; every process returns it.

    Args:
        obj: any object that can be pickled; ignored in all processes but the sender.
        src_rank: the sender's rank.
        dist_device: the device that the group communicates on.
    """
    objects = [obj]
    torch.distributed.broadcast_object_list(objects, src_rank, group, dist_device)
    return objects[0]


def launch_init(cfg: DistributedTrainingConfig) -> None:
    """Sets rank, world size and device of a process that torchrun started, from its environment variables."""
    if torch.cuda.device_count() > 0:
        return fairseq_launch_init(cfg)
    cfg.distributed_init_method = "env://"
    cfg.distributed_world_size = int(os.environ["WORLD_SIZE"])
    cfg.distributed_rank = int(os.environ["RANK"])
    cfg.device_id = 0
    cfg.distributed_no_spawn = True  # torchrun has started the processes
