"""Pictures of pages of text, drawn here."""

import io
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

SIZE = (480, 640)
WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "while", "pages", "of", "a", "book", "lie", "on", "the", "table", "in", "a", "quiet", "room"]  # fmt: skip


def page(seed: int, turned: int) -> np.ndarray[Any, Any]:
    """The bytes of a JPEG file: text in lines that end at random, turned against the clock by so many degrees."""
    random = np.random.default_rng(seed)
    image = Image.new("RGB", SIZE, "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(18)
    for height in range(30, SIZE[1] - 40, 26):
        line = ""
        while draw.textlength(line, font) < SIZE[0] - 140:
            line += str(random.choice(WORDS)) + " "
        draw.text((30, height), line, "black", font)
    file = io.BytesIO()
    image.rotate(turned, expand=True).save(file, "JPEG", quality=90)
    return np.frombuffer(file.getvalue(), np.uint8)
