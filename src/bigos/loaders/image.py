# SPDX-License-Identifier: GPL-2.0-only
"""Images of pages (PNG, JPEG, TIFF, BMP, WebP, GIF): their text by OCR. Each frame of a TIFF is a page."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bigos.errors import DocumentError
from bigos.loaders.hyphens import Hyphens
from bigos.loaders.options import LoadOptions
from bigos.loaders.pdf_outline import Outline
from bigos.loaders.pdf_writing import Writer, learn, of_recognised
from bigos.loaders.recognised import recognise
from bigos.loaders.sections import Parsed
from bigos.types import SourceFile

if TYPE_CHECKING:
    from PIL.Image import Image

_KINDS = ("PNG", "JPEG", "TIFF", "BMP", "WEBP", "GIF", "JPEG2000")
_MOST_FRAMES = 2000
_MOST_PIXELS = 30_000_000  # given to the recogniser; what is larger is made smaller
_LEAST_SIDE = 1600  # pixels of the longer side, below which letters are too small as they are
_PALEST = 65_535.0  # of a channel with 16 bits


def load(_source: SourceFile, data: bytes, options: LoadOptions) -> Parsed:
    """The recognised text of every frame, which is its page. A photograph gives no text.

    Raises:
        DocumentError: "damaged", "too large" when it unpacks to more pixels than Pillow takes for honest, "needs OCR".
    """
    frames = _frames(data)
    wanted = range(1, frames + 1)
    result = recognise(
        options,
        data,
        wanted,
        lambda recogniser, digest: recogniser.recognise_images(digest, wanted, lambda page: _frame(data, page - 1)),
    )
    result.refuse_without_text()
    pages = [of_recognised(result.texts.get(page, "")) for page in wanted]
    hyphens = Hyphens()
    learn(hyphens, pages)
    writer = Writer(Outline(()), hyphens)
    for index, paragraphs in enumerate(pages):
        writer.page(index, paragraphs, ())
    return writer.parsed(None, tuple(result.warnings([page for page in wanted if page not in result.texts])))


def _frames(data: bytes) -> int:
    with _opened(data) as image:
        if image.format not in ("TIFF",):
            return 1  # the frames of an animation are one page, and an MPO's are one photograph
        count = int(getattr(image, "n_frames", 1))
    if count > _MOST_FRAMES:
        raise DocumentError("too large", f"{count:,} frames, and the limit is {_MOST_FRAMES:,}", skipped=True)
    return count


def _frame(data: bytes, index: int) -> Image:
    """One frame as it is meant to be seen, in grey."""
    from PIL import ImageOps
    from PIL.Image import Resampling

    with _opened(data) as image:
        if index:
            image.seek(index)
        if image.width * image.height > 4 * _MOST_PIXELS:
            image.draft("L", (image.width // 2, image.height // 2))  # a JPEG unpacks smaller at once
        page = ImageOps.exif_transpose(image)
        page = _grey(page)
    area = page.width * page.height
    if area > _MOST_PIXELS:
        factor = (_MOST_PIXELS / area) ** 0.5
        page = page.resize((max(int(page.width * factor), 1), max(int(page.height * factor), 1)), Resampling.LANCZOS)
    elif max(page.size) < _LEAST_SIDE:
        page = page.resize((page.width * 2, page.height * 2), Resampling.LANCZOS)
    return page


def _grey(image: Image) -> Image:
    from PIL import Image as Images

    if image.mode.startswith(("I", "F")):
        wide = image.convert("F")
        return wide.point(lambda value: value * (255.0 / _PALEST) + 0.0).convert("L")
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa"):
        image = image.convert("RGBA")
        white = Images.new("RGBA", image.size, "white")
        image = Images.alpha_composite(white, image)
    return image.convert("L")


@contextmanager
def _opened(data: bytes) -> Iterator[Image]:
    """The image; Pillow's exceptions become ours."""
    from PIL import Image as Images
    from PIL import UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Images.DecompressionBombWarning)
            with Images.open(io.BytesIO(data), formats=_KINDS) as image:
                yield image
    except (Images.DecompressionBombWarning, Images.DecompressionBombError) as error:
        raise DocumentError("too large", f"the image is too large to be unpacked: {error}", skipped=True) from error
    except UnidentifiedImageError as error:
        raise DocumentError("damaged", "the image cannot be read") from error
    except (OSError, SyntaxError, ValueError, EOFError) as error:  # what Pillow's plugins raise
        raise DocumentError("damaged", f"the image cannot be read: {' '.join(str(error).split())[:200]}") from error
