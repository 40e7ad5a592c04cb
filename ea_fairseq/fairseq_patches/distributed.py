"""Trainings of several processes: on CPUs, too, and with checkpoints that torch's check lets through."""

import os

import torch
from fairseq.dataclass.configs import DistributedTrainingConfig
from fairseq.distributed import utils as distributed_utils

fairseq_join = distributed_utils._infer_torch_distributed_launch_init


def let_processes_work():
    """Puts the functions below into fairseq, for all of its commands."""
    distributed_utils._broadcast_object_slow = broadcast_object
    distributed_utils._infer_torch_distributed_launch_init = join_torchrun


def broadcast_object(obj, src_rank: int, group, dist_device: torch.device):
    """Sends an object from one process of a training to the others; all of them return it.

    fairseq loads a checkpoint in one process alone and sends it to the others as a file to load, with classes of its
    own in it, which torch refuses. This sends the same: what has passed torch's check in the first process.
    """
    box = [obj]
    torch.distributed.broadcast_object_list(box, src_rank, group, dist_device)
    return box[0]


def join_torchrun(cfg: DistributedTrainingConfig):
    """Makes this the process that torchrun says it is, without a GPU, too, where fairseq divides by their number."""
    if torch.cuda.device_count() > 0:
        return fairseq_join(cfg)
    cfg.distributed_init_method = "env://"
    cfg.distributed_world_size = int(os.environ["WORLD_SIZE"])
    cfg.distributed_rank = int(os.environ["RANK"])
    cfg.device_id = 0
    cfg.distributed_no_spawn = True  # torchrun has started the processes
