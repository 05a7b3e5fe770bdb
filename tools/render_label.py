"""Render the visible label's bitmap, farm/provenance/assets/label.png; needs Pillow and a CJK font, at build time only.

    python tools/render_label.py FONT [INDEX]

The bitmap is made once and committed, so that no worker needs a font. L is the picture (white letters, black outline),
A its opacity. The first line's font size is EM pixels; `farm.provenance.label` scales it to the frame.
"""

import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter, ImageFont

EM = 160
SECOND_LINE = 0.62
PADDING = 24
OUT = Path(__file__).resolve().parents[1] / "farm" / "provenance" / "assets" / "label.png"


def main(font_path: str, index: int = 0) -> None:
    big = ImageFont.truetype(font_path, EM, index=index)
    small = ImageFont.truetype(font_path, round(EM * SECOND_LINE), index=index)
    lines = [("AI合成", big), ("AI-altered", small)]
    boxes = [font.getbbox(text) for text, font in lines]
    width = max(box[2] for box in boxes) + 2 * PADDING
    height = sum(box[3] - box[1] for box in boxes) + 3 * PADDING
    letters = Image.new("L", (width, height), 0)
    draw, y = ImageDraw.Draw(letters), PADDING
    for (text, font), box in zip(lines, boxes, strict=True):
        draw.text((PADDING - box[0], y - box[1]), text, fill=255, font=font)
        y += box[3] - box[1] + PADDING
    outline = letters.filter(ImageFilter.MaxFilter(9)).filter(ImageFilter.GaussianBlur(4))
    alpha = outline
    alpha.paste(255, mask=letters)
    Image.merge("LA", (letters, alpha)).save(OUT, optimize=True)
    print(OUT, (width, height), OUT.stat().st_size, "bytes; capital height", big.getbbox("A")[3] - big.getbbox("A")[1])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
