"""A resumed training sees the batches that it would have seen without the interruption."""

from fairseq.data import FairseqDataset
from fairseq.data.iterators import EpochBatchIterating
from fairseq.tasks import FairseqTask

fairseq_batches = FairseqTask.get_batch_iterator


def resume_batches():
    """Puts the function below into fairseq, for all of its commands."""
    FairseqTask.get_batch_iterator = get_batch_iterator


def get_batch_iterator(
    self: FairseqTask,
    dataset: FairseqDataset,
    *args,
    epoch: int = 1,
    disable_iterator_cache: bool = False,
    update_epoch_batch_itr: bool = False,
    **kwargs,
) -> EpochBatchIterating:
    """Cuts a data set into batches as fairseq does, those that it keeps for all epochs as if it started in the first.

    fairseq takes the number of the epoch it starts in for a seed, so it would cut them otherwise after a resumption.
    """
    kept = self.can_reuse_epoch_itr(dataset) and not (disable_iterator_cache or update_epoch_batch_itr)
    return fairseq_batches(
        self,
        dataset,
        *args,
        epoch=1 if kept else epoch,
        disable_iterator_cache=disable_iterator_cache,
        update_epoch_batch_itr=update_epoch_batch_itr,
        **kwargs,
    )
