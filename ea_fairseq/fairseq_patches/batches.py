"""A resumed training sees the batches that it would have seen without the interruption.

``FairseqTask.get_batch_iterator`` (fairseq/tasks/fairseq_task.py) cuts a data set into batches once for all epochs,
in an order drawn with the seed ``seed + epoch`` of the epoch it starts in. A resumption starts in a later epoch, so it
draws other batches. Batches that are kept for all epochs are drawn here as if training started in the first one.

``EpochBatchIterator`` (fairseq/data/iterators.py) keeps a data loader for all epochs, and with it whether the first
epoch was shuffled: with ``--curriculum N`` no later epoch is, unless training is resumed. Here each epoch is shuffled
or not as it is told.

Processes that load batches (``--num-workers``, 1 by default) are kept for all epochs, too, with the data set as it was
when they started: ``--task masked_lm`` masks the same words in each epoch, and others after a resumption. Here they
start anew in each epoch of that task.

A data set of which ``--skip-invalid-size-inputs-valid-test`` leaves nothing ends in an IndexError in fairseq, here in a
sentence.
"""

from typing import Any

import numpy as np
from fairseq.data import FairseqDataset
from fairseq.data.iterators import CountingIterator, EpochBatchIterating, EpochBatchIterator
from fairseq.tasks import FairseqTask
from fairseq.tasks.masked_lm import MaskedLMTask

from ea_fairseq.errors import UserError

fairseq_get_batch_iterator = FairseqTask.get_batch_iterator
fairseq_filter_indices_by_size = FairseqTask.filter_indices_by_size
fairseq_iterator_for_epoch = EpochBatchIterator._get_iterator_for_epoch


def patch_batches() -> None:
    """Replaces ``FairseqTask.get_batch_iterator`` and the method that iterates over an epoch by those below."""
    FairseqTask.get_batch_iterator = get_batch_iterator
    FairseqTask.filter_indices_by_size = filter_indices_by_size
    EpochBatchIterator._get_iterator_for_epoch = iterator_for_epoch


def filter_indices_by_size(
    self: FairseqTask,
    indices: np.ndarray,
    dataset: FairseqDataset,
    max_positions: Any = None,
    ignore_invalid_inputs: bool = False,
) -> np.ndarray:
    """The sentences of a data set that are not too long.

    Raises:
        UserError: where there are sentences, and none is short enough.
    """
    found = fairseq_filter_indices_by_size(self, indices, dataset, max_positions, ignore_invalid_inputs)
    if len(indices) and not len(found):
        raise UserError(f"no sentence is left of {len(indices):,}: all are longer than {max_positions} tokens")
    return found


def iterator_for_epoch(
    self: EpochBatchIterator, epoch: int, shuffle: bool, fix_batches_to_gpus: bool = False, offset: int = 0
) -> CountingIterator:
    """fairseq's iterator over the batches of an epoch, from ``offset`` on, shuffled or not as it is told."""
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
    """fairseq's iterator over the batches of a data set, with epoch 1 where one iterator serves all epochs.

    Args:
        epoch: the epoch to start in, from 1; the caller restores the iterator's position afterwards.
        disable_iterator_cache, update_epoch_batch_itr: make a new iterator for each epoch; these keep their epoch.
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
