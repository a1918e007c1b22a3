"""What DRAGON, arXiv 2504.11197, section 7, says in numbers about its Figures 5 to 8.

Its curves are pictures only. `OPT` is OPT-1.3B, `QWEN` Qwen2.5-1.5B.
"""

from __future__ import annotations

OPT, QWEN = "OPT-1.3B", "Qwen2.5-1.5B"

GAIN = {QWEN: 1.9, OPT: 1.4}
"""The fall in perplexity from no retrieval, over that of the second best; 16 documents a side."""

CUT_300_MS = {
    "sequencewise": {OPT: 0.495, QWEN: 0.432},
    "tokenwise": {OPT: 0.424, QWEN: 0.197},
}
"""The share of a token's time that is saved against these at 300 ms more."""

OVER_DEVICE = {OPT: 0.156, QWEN: 0.203}
"""The extra time of a token over the device alone, in the mean of 0 to 300 ms."""

TTFT_TEXT, TTFT_KV_300_MS = 8.6, 15.3
"""The time to the first token with the cloud's documents fetched, to DRAGON's: as text in the mean
of 0 to 300 ms, as keys and values at 300 ms, of OPT."""

SECONDS_PER_100_TOKENS = {
    "paper": {100: 27.58, 400: 36.07},
    "device": {100: 27.53, 400: 41.06},
    "cloud": {100: 32.74, 400: 46.66},
    "random": {100: 30.28, 400: 42.85},
}
"""By schedule and extra latency in ms, of OPT in their simulator."""
