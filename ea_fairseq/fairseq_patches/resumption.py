"""A resumed training continues as if it had not been interrupted, and epochs have the right batches.

- ``FairseqTask.get_batch_iterator`` (fairseq/tasks/fairseq_task.py) cuts a data set into batches once for all epochs,
  in an order drawn with the seed ``seed + epoch`` of the epoch it starts in. A resumption starts in a later epoch, so
  it draws other batches. Here batches that are reused in all epochs are drawn as if training started in the first one.
- ``EpochBatchIterator`` (fairseq/data/iterators.py) reuses one data loader in all epochs, including whether the first
  epoch was shuffled: with ``--curriculum N`` no later epoch is, unless training is resumed. Here each epoch is shuffled
  as its arguments say.
- Processes that load batches (``--num-workers``, 1 by default) are reused in all epochs, too, with the data set as it
  was when they started: ``--task masked_lm`` masks the same tokens in each epoch, and others after a resumption. Here
  they are started again in each epoch of that task.
- If ``--skip-invalid-size-inputs-valid-test`` removes all sentences of a data set, fairseq raises an IndexError. Here
  it is a UserError with one sentence.
- ``should_stop_early`` (fairseq_cli/train.py), for ``--patience``, stores the best validation and the number of
  validations since then as attributes of itself, which are not in checkpoints, so a resumption starts counting again.
  Here checkpoints store them.
- ``Trainer.load_checkpoint`` (fairseq/trainer.py) restores the training time, which checkpoints have (as a tensor if
  several processes train), but the log's ``wall`` starts at 0 again or, if training resumes within an epoch, stays 0.
  Here it is the time since the training began.
"""

import sys
import time
from typing import Any

import numpy as np
from fairseq.data import FairseqDataset
from fairseq.data.iterators import CountingIterator, EpochBatchIterating, EpochBatchIterator
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask
from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.trainer import Trainer

from ea_fairseq.errors import UserError

fairseq_get_batch_iterator = FairseqTask.get_batch_iterator
fairseq_filter_indices_by_size = FairseqTask.filter_indices_by_size
fairseq_iterator_for_epoch = EpochBatchIterator._get_iterator_for_epoch
fairseq_save = Trainer.save_checkpoint
fairseq_load = Trainer.load_checkpoint
KEY = "early_stopping"  # in a checkpoint's extra_state


def patch_resumption() -> None:
    """Replaces the five methods by the functions below."""
    FairseqTask.get_batch_iterator = get_batch_iterator
    FairseqTask.filter_indices_by_size = filter_indices_by_size
    EpochBatchIterator._get_iterator_for_epoch = iterator_for_epoch
    Trainer.save_checkpoint = save_checkpoint
    Trainer.load_checkpoint = load_checkpoint


def filter_indices_by_size(
    self: FairseqTask,
    indices: np.ndarray,
    dataset: FairseqDataset,
    max_positions: Any = None,
    ignore_invalid_inputs: bool = False,
) -> np.ndarray:
    """Returns the indices of the sentences that are not too long.

    Raises:
        UserError: if there are sentences, but none is short enough.
    """
    found = fairseq_filter_indices_by_size(self, indices, dataset, max_positions, ignore_invalid_inputs)
    if len(indices) and not len(found):
        raise UserError(f"all {len(indices):,} sentences are longer than {max_positions} tokens")
    return found


def iterator_for_epoch(
    self: EpochBatchIterator, epoch: int, shuffle: bool, fix_batches_to_gpus: bool = False, offset: int = 0
) -> CountingIterator:
    """Returns fairseq's iterator over the batches of an epoch, from ``offset`` on, with the shuffling requested."""
    if self.dataloader is not None:
        self.epoch_batch_sampler.shuffle = shuffle
        self.epoch_batch_sampler.fix_batches_to_gpus = fix_batches_to_gpus
    return fairseq_iterator_for_epoch(self, epoch, shuffle, fix_batches_to_gpus, offset)


def get_batch_iterator(
    self: FairseqTask,
    dataset: FairseqDataset,
    *args: Any,
    epoch: int = 1,
    disable_iterator_cache: bool = False,
    update_epoch_batch_itr: bool = False,
    **kwargs: Any,
) -> EpochBatchIterating:
    """Returns fairseq's iterator over the batches of a data set, from epoch 1 if one iterator serves all epochs.

    Args:
        epoch: the epoch to start in, from 1; the caller restores the iterator's position afterwards.
        disable_iterator_cache, update_epoch_batch_itr: make a new iterator for each epoch, which keeps its epoch.
    """
    reused = self.can_reuse_epoch_itr(dataset) and not (disable_iterator_cache or update_epoch_batch_itr)
    batches = fairseq_get_batch_iterator(
        self,
        dataset,
        *args,
        epoch=1 if reused else epoch,
        disable_iterator_cache=disable_iterator_cache,
        update_epoch_batch_itr=update_epoch_batch_itr,
        **kwargs,
    )
    if isinstance(self, MaskedLMTask):
        batches.reuse_dataloader = False
    return batches


def patience_state() -> dict:
    """Returns the attributes of ``should_stop_early``: ``best`` and ``num_runs``, or an empty dict outside of training.

    It is the function's own dict, so an update of it sets the attributes.
    """
    training = sys.modules.get("fairseq_cli.train")
    return vars(training.should_stop_early) if training else {}


def save_checkpoint(self: Trainer, filename: str, extra_state: dict) -> None:
    """Saves a checkpoint as fairseq does, with :func:`patience_state` added to its extra state."""
    fairseq_save(self, filename, {**extra_state, KEY: {**patience_state()}})


def load_checkpoint(self: Trainer, filename: str, *args: Any, reset_meters: bool = False, **kwargs: Any) -> dict | None:
    """Loads a checkpoint as fairseq does, and restores patience and clock unless ``--reset-meters`` is given.

    Returns:
        The checkpoint's extra state, or None if there is no such file.
    """
    extra_state = fairseq_load(self, filename, *args, reset_meters=reset_meters, **kwargs)
    if extra_state is not None and not reset_meters:
        patience_state().update(extra_state.get(KEY, {}))
        if (clock := metrics.get_meter("default", "wall")) is not None:
            clock.start_time = time.perf_counter() - float(self.cumulative_training_time())
    return extra_state
