"""The baselines of CEAN, section 4.1: LSTM, GRU and ResNet, with the output layer of the other time-series models."""

from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.models import register_model_architecture
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ea_fairseq.kernels.masks import AttentionMasks, none_if_empty
from ea_fairseq.models.mechanism_model import register, set_options
from ea_fairseq.models.time_series import StepNorm, TimeSeriesModel
from ea_fairseq.models.time_series_options import TimeSeriesOptions
from ea_fairseq.options import Options

KERNELS = (8, 5, 3)  # sizes of the convolutions in a block of ResNet


class Recurrent(nn.Module):
    """Recurrent layers, from the first step to the last.

    Args:
        kind: ``nn.LSTM`` or ``nn.GRU``.
        channels: C of a series.
    """

    def __init__(self, kind: Callable[..., nn.RNNBase], channels: int, options: TimeSeriesOptions):
        super().__init__()
        dropout = options.dropout if options.blocks > 1 else 0.0
        self.layers = kind(channels, options.width, options.blocks, batch_first=True, dropout=dropout)

    def forward(self, source: Tensor, padding_mask: Tensor) -> Tensor:
        """(B, T, C) -> (B, T, d); padding comes last, so it changes no real step."""
        device = source.device.type
        # Recurrent layers in bfloat16 are not available on all CPUs.
        with torch.autocast(device, enabled=device != "cpu" and torch.is_autocast_enabled(device)):
            return self.layers(source)[0]


class ResidualBlock(nn.Module):
    """Three convolutions with batch norm, and a residual connection.

    Wang, Yan and Oates, Time Series Classification from Scratch with Deep Neural Networks, IJCNN 2017.
    """

    def __init__(self, channels: int, width: int):
        super().__init__()
        inputs = (channels, width, width)
        self.convs = nn.ModuleList(nn.Conv1d(*sizes) for sizes in zip(inputs, (width,) * 3, KERNELS, strict=True))
        self.norms = nn.ModuleList(StepNorm(width) for _ in KERNELS)
        self.shortcut = nn.Linear(channels, width) if channels != width else nn.Identity()
        self.shortcut_norm = StepNorm(width)

    def forward(self, x: Tensor, masks: AttentionMasks) -> Tensor:
        """(T, B, C) -> (T, B, d); convolutions read zeros at padding."""
        padded, residual = masks.padded_keys, x
        for kernel, conv, norm in zip(KERNELS, self.convs, self.norms, strict=True):
            steps = F.pad(masks.cleared_tokens(x).permute(1, 2, 0), ((kernel - 1) // 2, kernel // 2))
            x = norm(conv(steps).permute(2, 0, 1), padded)
            x = F.relu(x) if norm is not self.norms[-1] else x
        return F.relu(x + self.shortcut_norm(self.shortcut(residual), padded))


class ResNet(nn.Module):
    """A stack of residual blocks of convolutions."""

    def __init__(self, channels: int, options: TimeSeriesOptions):
        super().__init__()
        inputs = [channels, *[options.width] * (options.blocks - 1)]
        self.blocks = nn.ModuleList(ResidualBlock(width, options.width) for width in inputs)

    def forward(self, source: Tensor, padding_mask: Tensor) -> Tensor:
        """(B, T, C) -> (B, T, d)"""
        x, masks = source.transpose(0, 1), AttentionMasks(none_if_empty(padding_mask))
        for block in self.blocks:
            x = block(x, masks)
        return x.transpose(0, 1)


class TimeSeriesBaseline(TimeSeriesModel):
    """A model of time series without attention."""

    build_encoder: Callable[[int, TimeSeriesOptions], nn.Module]

    @classmethod
    def option_classes(cls) -> tuple[type[Options], ...]:
        """Returns all option classes."""
        return (TimeSeriesOptions,)

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Adds the flags of the model."""
        TimeSeriesOptions.add_args(parser)

    @classmethod
    def build_model(cls, args: Any, task: FairseqTask) -> "TimeSeriesBaseline":
        """Checks the flags and builds the model.

        Raises:
            UserError: naming the flag that is out of range.
        """
        options, description = TimeSeriesOptions.from_namespace(args), cls.description_of(args, task)
        return cls(args, cls.build_encoder(description.channels, options), description)


def register_baseline(name: str, build_encoder: Callable[[int, TimeSeriesOptions], nn.Module]) -> None:
    """Registers a model with fairseq, given a function that builds an encoder for C channels."""
    builds = staticmethod(build_encoder)
    model = register(name, TimeSeriesBaseline, build_encoder=builds, __doc__=build_encoder.__doc__)
    register_model_architecture(name, name)(lambda args: set_options(args, model.option_classes(), {}))


register_baseline("time_series_lstm", lambda channels, options: Recurrent(nn.LSTM, channels, options))
register_baseline("time_series_gru", lambda channels, options: Recurrent(nn.GRU, channels, options))
register_baseline("time_series_resnet", ResNet)
