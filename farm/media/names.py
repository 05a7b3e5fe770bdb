"""FFmpeg's numbers for colour, field order and chroma location, and the names that the farm uses for them."""

from __future__ import annotations

PRIMARIES = {
    1: "bt709",
    2: "unknown",
    4: "bt470m",
    5: "bt470bg",
    6: "smpte170m",
    7: "smpte240m",
    8: "film",
    9: "bt2020",
    10: "smpte428",
    11: "smpte431",
    12: "smpte432",
    22: "ebu3213",
}
TRANSFERS = {
    1: "bt709",
    2: "unknown",
    4: "bt470m",
    5: "bt470bg",
    6: "smpte170m",
    7: "smpte240m",
    8: "linear",
    9: "log100",
    10: "log316",
    11: "iec61966-2-4",
    12: "bt1361e",
    13: "iec61966-2-1",
    14: "bt2020-10",
    15: "bt2020-12",
    16: "smpte2084",
    17: "smpte428",
    18: "arib-std-b67",
}
MATRICES = {
    0: "gbr",
    1: "bt709",
    2: "unknown",
    4: "fcc",
    5: "bt470bg",
    6: "smpte170m",
    7: "smpte240m",
    8: "ycgco",
    9: "bt2020nc",
    10: "bt2020c",
    11: "smpte2085",
    12: "chroma-derived-nc",
    13: "chroma-derived-c",
    14: "ictcp",
}
RANGES = {0: "unknown", 1: "tv", 2: "pc"}
FIELD_ORDERS = {0: "unknown", 1: "progressive", 2: "tt", 3: "bb", 4: "tb", 5: "bt"}
CHROMA_LOCATIONS = ("left", "center", "topleft", "top", "bottomleft", "bottom")


def name_of(table: dict[int, str], number: int) -> str:
    """The name of `number`, "unknown" when there is none."""
    return table.get(int(number), "unknown")
