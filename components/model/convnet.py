"""A small residual convolution network with batch norm, for image classification."""

from __future__ import annotations

from torch import Tensor, nn

from components.errors import ConfigError
from components.model.stack import Stack


class ConvBlock(nn.Module):
    """hidden + relu(norm(conv(hidden))): channels and image size stay."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, kernel_size=3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, hidden: Tensor) -> Tensor:
        """(rows, width, height, width) to the same shape."""
        return hidden + self.norm(self.conv(hidden)).relu()


class ConvNet(Stack):
    """(rows, channels, image_size, image_size) images to (rows, classes) logits."""

    def __init__(
        self, *, channels: int, image_size: int, width: int, layers: int, classes: int
    ) -> None:
        """One convolution in, `layers` residual ones, mean over the image, one linear layer.

        Args:
            channels: of the images.
            image_size: their height and width in pixels; only the FLOP count needs it.
            width: channels inside.
            layers: residual blocks.
            classes: logits.

        Raises:
            ConfigError: for a size below 1.
        """
        super().__init__()
        sizes = {
            "channels": channels,
            "image_size": image_size,
            "width": width,
            "layers": layers,
            "classes": classes,
        }
        for key, size in sizes.items():
            if size < 1:
                raise ConfigError(f"model.{key}={size} must be at least 1.")
        self.pixels = image_size**2
        self.stem = nn.Sequential(
            nn.Conv2d(channels, width, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        )
        self.blocks = nn.ModuleList(ConvBlock(width) for _ in range(layers))
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))

        # Kept as a number, because a sharded weight may be empty later.
        kernels = sum(m.weight.numel() for m in self.modules() if isinstance(m, nn.Conv2d))
        self.flops = 6.0 * (kernels * self.pixels + width * classes)

    def flops_per_sample(self) -> float:
        """Floating-point operations of a forward and backward: 6 per weight and place it is used.

        A convolution's weights are used at each pixel. Norms and sums are left out.
        """
        return self.flops
