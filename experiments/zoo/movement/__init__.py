"""Networks in which moving an operator past others saves work: as they are exported, and rewritten by hand.

Both forms have the same seeded random weights. The rewritten form is derived on paper, independently of the
rules of the library.
"""

from __future__ import annotations

from typing import Final

from zoo.families import Families
from zoo.movement.attention import grouped_queries, latent
from zoo.movement.decoders import (
    autoencoder_decoder,
    pose_head,
    unet_decoder,
    upsampling,
)
from zoo.movement.encoders import first_token, pre_normed
from zoo.movement.ranking import recommender
from zoo.movement.segmentation import pyramid_head, segformer, segformer_head

__all__ = ["MOVEMENT"]

MOVEMENT: Final = Families(
    {
        "segformer": segformer,
        "segformer_head": segformer_head,
        "pyramid_head": pyramid_head,
        "upsampling": upsampling,
        "autoencoder_decoder": autoencoder_decoder,
        "unet_decoder": unet_decoder,
        "pose_head": pose_head,
        "first_token": first_token,
        "pre_normed": pre_normed,
        "grouped_queries": grouped_queries,
        "latent": latent,
        "recommender": recommender,
    }
)
