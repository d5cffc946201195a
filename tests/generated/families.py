"""All families of generated models, and the model of a seed."""

from tests.generated import images, sequences
from tests.generated.draft import Draft

FAMILIES = sequences.FAMILIES | images.FAMILIES


def draw(seed):
    """Return the name of a family, the draft, its model and the sizes at which it runs, of a seed.

    The families take turns. A draft that ONNX Runtime does not run at five sizes is drawn again.
    """
    name = list(FAMILIES)[seed % len(FAMILIES)]
    for attempt in range(50):
        draft = Draft((seed, attempt))
        FAMILIES[name](draft)
        found = draft.finished()
        if found is not None:
            return name, draft, *found
    raise ValueError(f"no valid model of the family {name} in 50 attempts at seed {seed}")
