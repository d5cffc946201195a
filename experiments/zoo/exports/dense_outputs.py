"""Models whose output is as large as an image: segmentation, detection, restoration, generation."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from zoo.exports.parts import ConvNorm, Head, Residual


class _UNet(nn.Module):
    """A contracting and an expanding path, joined at every level."""

    def __init__(self, widths: Sequence[int] = (64, 128, 256, 512, 1024), classes: int = 1) -> None:
        super().__init__()
        twice = lambda i, o: nn.Sequential(ConvNorm(i, o, 3), ConvNorm(o, o, 3))  # noqa: E731
        self.down = nn.ModuleList(twice(i, o) for i, o in zip((3, *widths), widths, strict=False))
        pairs = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose2d(i, o, 2, 2) for i, o in pairs)
        self.after = nn.ModuleList(twice(i, o) for i, o in pairs)
        self.pool, self.last = nn.MaxPool2d(2), nn.Conv2d(widths[0], classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        for number, block in enumerate(self.down):
            x = block(self.pool(x) if number else x)
            kept.append(x)
        for up, block, beside in zip(self.up, self.after, kept[-2::-1], strict=True):
            x = block(torch.cat([beside, up(x)], 1))
        return self.last(x)


def unet() -> nn.Module:
    """Return U-Net with batch norms and padding (arXiv 1505.04597, in the form of milesial/Pytorch-UNet)."""
    return _UNet()


def _conv(inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> nn.Module:
    return ConvNorm(inputs, outputs, kernel, stride, act=nn.SiLU, eps=1e-3)


class _C2f(nn.Module):
    """A block of YOLOv8 that joins all intermediate values at the end."""

    def __init__(self, inputs: int, outputs: int, count: int, shortcut: bool) -> None:
        super().__init__()
        half = outputs // 2
        self.first, self.last = _conv(inputs, outputs), _conv((2 + count) * half, outputs)
        bodies = (nn.Sequential(_conv(half, half, 3), _conv(half, half, 3)) for _ in range(count))
        self.blocks = nn.ModuleList(Residual(b) if shortcut else b for b in bodies)

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.first(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.last(torch.cat(parts, 1))


class _Sppf(nn.Module):
    """Three consecutive poolings of size 5 with joined results; the last covers a field of size 13."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.last = _conv(channels, channels // 2), _conv(2 * channels, channels)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.last(torch.cat(parts, 1))


class _Detect(nn.Module):
    """A head for boxes, as distributions over 16 distances to every side, and for scores of the classes."""

    def __init__(self, widths: Sequence[int], classes: int, size: int) -> None:
        super().__init__()
        inner, scores = max(16, widths[0] // 4, 64), max(widths[0], min(classes, 100))
        self.boxes = nn.ModuleList(
            nn.Sequential(_conv(w, inner, 3), _conv(inner, inner, 3), nn.Conv2d(inner, 64, 1)) for w in widths
        )
        self.scores = nn.ModuleList(
            nn.Sequential(_conv(w, scores, 3), _conv(scores, scores, 3), nn.Conv2d(scores, classes, 1))
            for w in widths
        )
        self.distance = nn.Conv2d(16, 1, 1, bias=False)
        self.distance.weight.data = torch.arange(16.0).view(1, 16, 1, 1)
        centres, strides = [], []
        for stride in (8, 16, 32):
            along = torch.arange(size // stride) + 0.5
            rows, columns = torch.meshgrid(along, along, indexing="ij")
            centres.append(torch.stack([columns, rows]).flatten(1))
            strides.append(torch.full((1, along.numel() ** 2), float(stride)))
        self.register_buffer("centres", torch.cat(centres, 1))
        self.register_buffer("strides", torch.cat(strides, 1))

    def forward(self, levels: Sequence[Tensor]) -> Tensor:
        boxes, scores = [], []
        for x, box, score in zip(levels, self.boxes, self.scores, strict=True):
            boxes.append(box(x).flatten(2))
            scores.append(score(x).flatten(2))
        spread = torch.cat(boxes, 2)
        batch, count = spread.size(0), spread.size(2)
        spread = spread.view(batch, 4, 16, count).transpose(1, 2).softmax(1)
        first, second = self.distance(spread).view(batch, 4, count).chunk(2, 1)
        low, high = self.centres - first, self.centres + second
        found = torch.cat([(low + high) / 2, high - low], 1) * self.strides
        return torch.cat([found, torch.cat(scores, 2).sigmoid()], 1)


class _Yolo(nn.Module):
    """YOLOv8: a backbone, a pyramid down and up again, and a head for three resolutions."""

    def __init__(self, size: int = 640, classes: int = 80) -> None:
        super().__init__()
        self.early = nn.Sequential(_conv(3, 16, 3, 2), _conv(16, 32, 3, 2), _C2f(32, 32, 1, True))
        self.early.extend([_conv(32, 64, 3, 2), _C2f(64, 64, 2, True)])
        self.middle = nn.Sequential(_conv(64, 128, 3, 2), _C2f(128, 128, 2, True))
        self.late = nn.Sequential(_conv(128, 256, 3, 2), _C2f(256, 256, 1, True), _Sppf(256))
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.four, self.three = _C2f(384, 128, 1, False), _C2f(192, 64, 1, False)
        self.down, self.again = _conv(64, 64, 3, 2), _C2f(192, 128, 1, False)
        self.deep, self.five = _conv(128, 128, 3, 2), _C2f(384, 256, 1, False)
        self.detect = _Detect((64, 128, 256), classes, size)

    def forward(self, x: Tensor) -> Tensor:
        three = self.early(x)
        four = self.middle(three)
        five = self.late(four)
        up = self.four(torch.cat([self.up(five), four], 1))
        fine = self.three(torch.cat([self.up(up), three], 1))
        medium = self.again(torch.cat([self.down(fine), up], 1))
        coarse = self.five(torch.cat([self.deep(medium), five], 1))
        return self.detect([fine, medium, coarse])


def yolov8n() -> nn.Module:
    """Return YOLOv8n for 80 classes at 640×640 (Jocher et al. 2023)."""
    return _Yolo()


class _Basic(nn.Module):
    """A residual block of two 3×3 convolutions."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(ConvNorm(channels, channels, 3), ConvNorm(channels, channels, 3, act=None))
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(x + self.body(x))


class _Bottleneck(nn.Module):
    """A residual block of three convolutions, whose output is four times as wide as its middle."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        first = [ConvNorm(inputs, width), ConvNorm(width, width, 3)]
        self.body = nn.Sequential(*first, ConvNorm(width, 4 * width, act=None))
        self.beside = nn.Identity() if inputs == 4 * width else ConvNorm(inputs, 4 * width, act=None)
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.body(x) + self.beside(x))


class _Exchange(nn.Module):
    """Branches of several resolutions; each output is the sum of all branches, resized to its resolution."""

    def __init__(self, widths: Sequence[int], blocks: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Sequential(*(_Basic(w) for _ in range(blocks))) for w in widths)
        self.paths = nn.ModuleList(
            nn.ModuleList(self._path(widths, j, i) for j in range(len(widths))) for i in range(len(widths))
        )
        self.act = nn.ReLU()

    @staticmethod
    def _path(widths: Sequence[int], source: int, target: int) -> nn.Module:
        if source == target:
            return nn.Identity()
        if source > target:
            up = nn.Upsample(scale_factor=2 ** (source - target), mode="nearest")
            return nn.Sequential(ConvNorm(widths[source], widths[target], act=None), up)
        steps = [ConvNorm(widths[source], widths[source], 3, 2) for _ in range(target - source - 1)]
        return nn.Sequential(*steps, ConvNorm(widths[source], widths[target], 3, 2, act=None))

    def forward(self, values: Sequence[Tensor]) -> list[Tensor]:
        given = [branch(x) for branch, x in zip(self.branches, values, strict=True)]
        found = []
        for paths in self.paths:
            total = paths[0](given[0])
            for path, x in zip(list(paths)[1:], given[1:], strict=True):
                total = total + path(x)
            found.append(self.act(total))
        return found


class _HrNet(nn.Module):
    """A network that keeps the high resolution to the end, with parallel lower ones, joined in the head."""

    def __init__(self, stages: Sequence[tuple[Sequence[int], int, int]], first: tuple[int, int]) -> None:
        super().__init__()
        width, blocks = first
        self.stem = nn.Sequential(ConvNorm(3, 64, 3, 2), ConvNorm(64, 64, 3, 2))
        self.stem.extend(_Bottleneck(64 if not k else 4 * width, width) for k in range(blocks))
        self.steps, self.stages = nn.ModuleList(), nn.ModuleList()
        before: Sequence[int] = (4 * width,)
        for widths, modules, count in stages:
            steps: list[nn.Module] = [
                nn.Identity() if b == w else ConvNorm(b, w, 3) for b, w in zip(before, widths, strict=False)
            ]
            steps.append(ConvNorm(before[-1], widths[-1], 3, 2))
            self.steps.append(nn.ModuleList(steps))
            self.stages.append(nn.Sequential(*(_Exchange(widths, count) for _ in range(modules))))
            before = widths
        self.widen = nn.ModuleList(_Bottleneck(w, 32 << k) for k, w in enumerate(before))
        self.join = nn.ModuleList()
        for k in range(3):
            self.join.append(self._biased(128 << k, 256 << k, 3, 2))
        self.last, self.head = self._biased(1024, 2048, 1, 1), Head(2048)

    @staticmethod
    def _biased(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Module:
        convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2)
        return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        values = [self.stem(x)]
        for steps, stage in zip(self.steps, self.stages, strict=True):
            given = [*values, values[-1]]
            values = stage([step(v) for step, v in zip(steps, given, strict=True)])
        wide = [block(v) for block, v in zip(self.widen, values, strict=True)]
        total = wide[0]
        for join, beside in zip(self.join, wide[1:], strict=True):
            total = join(total) + beside
        return self.head(self.last(total))


def hrnet_w18_small() -> nn.Module:
    """Return HRNet-W18-C-Small-v1 (arXiv 1908.07919)."""
    stages = (((16, 32), 1, 2), ((16, 32, 64), 1, 2), ((16, 32, 64, 128), 1, 2))
    return _HrNet(stages, (32, 1))


class _Edsr(nn.Module):
    """Residual blocks without norms, then channels rearranged into pixels."""

    def __init__(self, width: int = 64, blocks: int = 16) -> None:
        super().__init__()
        conv = lambda i, o: nn.Conv2d(i, o, 3, padding=1)  # noqa: E731
        self.first, self.last = conv(3, width), conv(width, 3)
        body = (
            Residual(nn.Sequential(conv(width, width), nn.ReLU(), conv(width, width))) for _ in range(blocks)
        )
        self.body = nn.Sequential(*body, conv(width, width))
        self.up, self.shuffle = conv(width, 4 * width), nn.PixelShuffle(2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return self.last(self.shuffle(self.up(x + self.body(x))))


def edsr_x2() -> nn.Module:
    """Return the baseline model of EDSR for twice the resolution (arXiv 1707.02921)."""
    return _Edsr()


def dcgan() -> nn.Module:
    """Return DCGAN's generator of 64×64 images (arXiv 1511.06434, in the form of torch's tutorial)."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((100, 512), (512, 256), (256, 128), (128, 64)):
        stride, padding = (1, 0) if inputs == 100 else (2, 1)
        layers.append(nn.ConvTranspose2d(inputs, outputs, 4, stride, padding, bias=False))
        layers += [nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(64, 3, 4, 2, 1, bias=False), nn.Tanh())
