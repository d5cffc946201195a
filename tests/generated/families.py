"""All families of generated models, and the model of a seed."""

from tests.generated import architectures, images, sequences
from tests.generated.draft import Draft

FAMILIES = sequences.FAMILIES | images.FAMILIES
#: Seeds from this one on draw blocks of known architectures.
LARGER = 9_000


def family_of(seed):
    """Return the name of the family of a seed, and the function that draws its models; families take turns."""
    families = FAMILIES if seed < LARGER else architectures.FAMILIES
    return list(families.items())[seed % len(families)]


def draw(seed):
    """Return the name of a family, the draft, its model and the sizes at which it runs, of a seed.

    A draft that ONNX Runtime does not run at five sizes is drawn again.
    """
    name, make = family_of(seed)
    for attempt in range(50):
        draft = Draft((seed, attempt))
        make(draft)
        found = draft.finished()
        if found is not None:
            return name, draft, *found
    raise ValueError(f"no valid model of the family {name} in 50 attempts at seed {seed}")
