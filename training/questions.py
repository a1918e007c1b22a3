"""Have a model ask many more questions: `python -m training.questions --model SMOLLM2.gguf ...`.

SmolLM2 learns from the written questions to ask what a line answers, and what a text nearly
answers. What it then asks about other texts has no labels that could be trusted: it is for the
judge's teacher to say what answers it (`training.judge`).
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from training.texts import Text, held_out, read_texts
from training.tuning import DEVICE, Sample, load, tune, written

RATE = 1e-4
_LENGTHS = 250, 1000  # characters of a passage
_TOGETHER = 640


def prompt(text: str, line: str | None) -> str:
    """What a question is written after; None: one that nothing in the text answers."""
    return f"{text}\n\nAnswered by: {line or 'nothing'}\nQuestion:"


def samples_of(texts: Sequence[Text], encode: object) -> list[Sample]:
    """The written questions, each behind its text and the line that answers."""
    pairs = [(prompt(t.text, a), q) for t in texts for q, a in t.asked]
    pairs += [(prompt(t.text, None), q) for t in texts for q in t.unasked]
    return [Sample(encode(before)[-700:], encode(f" {q}\n")) for before, q in pairs]  # type: ignore[operator]


def detokenized(line: str) -> str:
    """A line of WikiText without the spaces of its tokenised form."""
    text = re.sub(r" @([-,.])@ ", r"\1", line.strip())
    text = re.sub(r" ([,.;:!?%)\]])", r"\1", text)
    text = re.sub(r"([(\[$£€]) ", r"\1", text)
    text = re.sub(r" (n't|'s|'re|'ve|'ll|'d|'m)\b", r"\1", text)
    return re.sub(r'" ([^"]*?) "', r'"\1"', text)


def known(line: str) -> list[str]:
    """The longest runs of sentences of a line of WikiText without an unknown word."""
    runs, run = list[str](), ""
    for sentence in re.split(r"(?<= \. )", line.strip() + " "):
        if "<unk>" in sentence:
            runs.append(run)
            run = ""
        else:
            run += sentence
    return [*runs, run]


def passages(data: Path, texts: Sequence[Text], rng: random.Random) -> Iterator[str]:
    """Paragraphs of WikiText and of books, and the written texts, in turns, endlessly."""
    least, most = _LENGTHS
    with lzma.open(data / "wikitext-2/train.txt.xz", "rt", encoding="utf-8") as file:
        wiki = [detokenized(part) for line in file if " = " not in line for part in known(line)]
    with lzma.open(data / "books.txt.xz", "rt", encoding="utf-8") as file:
        books = [" ".join(part.split()) for part in file.read(25_000_000).split("\n\n")]
    wiki, books = ([t for t in own if least < len(t) < most] for own in (wiki, books))
    own = [text.text for text in texts]
    print(f"{len(wiki)} and {len(books)} paragraphs", flush=True)
    while True:
        for kind, count in ((wiki, 5), (own, 2), (books, 3)):
            yield from (rng.choice(kind) for _ in range(count))


def main() -> None:
    """Learn to ask, and ask until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, nargs=2, default=(120, 240))
    parser.add_argument("--few", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(1)
    model, tokenizer = load(options.model)

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
        return ids

    texts = [text for text in read_texts() if not held_out(text.text)]
    samples = samples_of(texts, encode)
    if options.few:
        samples = samples[: options.few]
    tune(model, samples, RATE, options.minutes[0], 2)
    if DEVICE == "cuda":
        model.bfloat16()
    together = options.few or _TOGETHER
    end = encode("\n")[0]
    source = passages(options.data, texts, rng)
    began, count = time.monotonic(), 0
    with options.out.open("w", encoding="utf-8") as out:
        while time.monotonic() - began < 60 * options.minutes[1]:
            drawn = [Text("", next(source)) for _ in range(together)]
            asked = [[rng.choice(t.lines()).text, rng.choice(t.lines()).text, None] for t in drawn]
            jobs = [(n, line) for n, lines in enumerate(asked) for line in lines]
            prompts = [encode(prompt(drawn[n].text, line))[-700:] for n, line in jobs]
            order = sorted(range(len(jobs)), key=lambda j: len(prompts[j]))
            questions = [""] * len(jobs)
            for at in range(0, len(order), together):
                part = order[at : at + together]
                made = written(model, tokenizer, [prompts[j] for j in part], 28, end, 0.9)
                for j, question in zip(part, made, strict=True):
                    questions[j] = question.splitlines()[0] if question else ""
            for n, text in enumerate(drawn):
                own = [j for j, (of, _) in enumerate(jobs) if of == n and len(questions[j]) > 7]
                row = {
                    "text": text.text,
                    "asked": [(questions[j], jobs[j][1]) for j in own if jobs[j][1]],
                    "unasked": [questions[j] for j in own if not jobs[j][1]],
                }
                out.write(json.dumps(row, ensure_ascii=False) + "\n")
                count += len(own)
            out.flush()
            print(
                f"{count} questions, {time.monotonic() - began:.0f} s; {questions[:6]}", flush=True
            )


if __name__ == "__main__":
    main()
