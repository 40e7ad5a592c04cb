"""A network that reads only attention maps, to find out how much they say about an image (CEAN section 5.1, table XII).

The paper names a "12-layer DenseNet" without details, so the sizes are our choice (Huang et al., Densely Connected
Convolutional Networks, CVPR 2017): a convolution to 24 channels, one block of ten layers that grow by 12, and the mean.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FIRST, LAYERS, GROWTH = 24, 10, 12
BATCH, MOMENTUM, DECAY = 128, 0.9, 1e-4
HIGHEST_RATE, LOWEST_RATE = 0.05, 1e-4


class MapReader(nn.Module):
    """Predicts an image's class from the maps of one query.

    Args:
        heads: K, the number of heads of the attention.
        classes: the number of outputs.
    """

    def __init__(self, heads: int, classes: int):
        super().__init__()
        widths = [FIRST + GROWTH * layer for layer in range(LAYERS + 1)]
        self.first = nn.Conv2d(heads, FIRST, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(map(nn.BatchNorm2d, widths))
        self.convs = nn.ModuleList(nn.Conv2d(width, GROWTH, 3, padding=1, bias=False) for width in widths[:-1])
        self.output = nn.Linear(widths[-1], classes)

    def forward(self, maps: Tensor) -> Tensor:
        """Maps (B, K, R, C) to logits of the classes (B, classes)."""
        x = self.first(maps)
        for norm, conv in zip(self.norms, self.convs, strict=False):
            x = torch.cat([x, conv(F.relu(norm(x)))], dim=1)
        return self.output(F.relu(self.norms[-1](x)).mean(dim=(2, 3)))


def read_maps(train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], classes: int, epochs: int, seed: int) -> float:
    """Trains a reader by SGD with a cosine schedule, and returns its accuracy on the test maps, in percent.

    Args:
        train, test: maps (N, K, R, C) and classes (N,).
    """
    torch.manual_seed(seed)
    maps, targets = train
    # Most probabilities are near 1 / (R C), so the reader gets standardised values.
    mean, deviation = maps.mean(dim=(0, 2, 3), keepdim=True), maps.std(dim=(0, 2, 3), keepdim=True).clamp(min=1e-12)
    reader = MapReader(maps.size(1), classes).to(maps.device)
    optimizer = torch.optim.SGD(reader.parameters(), HIGHEST_RATE, MOMENTUM, weight_decay=DECAY, nesterov=True)
    updates = epochs * -(-len(maps) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates, LOWEST_RATE)
    for _ in range(epochs):
        for chosen in torch.randperm(len(maps)).split(BATCH):
            loss = F.cross_entropy(reader((maps[chosen] - mean) / deviation), targets[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    reader.eval()
    with torch.no_grad():
        found = torch.cat([reader((part - mean) / deviation).argmax(dim=1) for part in test[0].split(10 * BATCH)])
    return 100 * (found == test[1]).double().mean().item()
