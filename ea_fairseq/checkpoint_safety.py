"""Lets fairseq's checkpoints load while torch still refuses every class it was not told about.

torch >= 2.6 loads with ``weights_only=True``. ``argparse.Namespace``, which holds the model's options, is the one
class in a translation checkpoint that torch does not know; it runs no code when it is loaded.
"""

import argparse

import torch
from fairseq.distributed import utils as distributed_utils


def broadcast_object(obj, src_rank: int, group, dist_device: torch.device):
    """Sends an object from one process of a training to the others; all of them return it.

    fairseq loads a checkpoint in one process alone and sends it to the others as a file to load, with classes of its
    own in it, which torch refuses. This sends the same: what has passed torch's check in the first process.
    """
    box = [obj]
    torch.distributed.broadcast_object_list(box, src_rank, group, dist_device)
    return box[0]


torch.serialization.add_safe_globals([argparse.Namespace])
distributed_utils._broadcast_object_slow = broadcast_object
