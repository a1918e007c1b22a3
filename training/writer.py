"""Train the writer's adapter: `python -m training.writer --model SMOLLM2.gguf --data DATA --out F`.

It learns to write a reply of a sentence or two from the lines that the judge chose, to make a
question stand alone without its conversation, and to talk about everyday things in its own person.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragon.inference.writer import ALONE, EVERYDAY, lines_prompt, transcript
from training.texts import FOLDER, Text, held_out, read_texts, same
from training.tuning import Sample, adapt, load, measured, save_adapter, tune, written

Messages = list[tuple[str, str]]
RATE = 4e-4
_CITED_FROM = (1, 1, 4)  # the first number of the device's lines, or of the cloud's


def words(text: str) -> set[str]:
    """The words of a text, for what is nearest to it."""
    return set("".join(c.lower() if c.isalnum() else " " for c in text).split())


def nearest(text: str, lines: Sequence[str]) -> list[int]:
    """Places of lines, those with most words of a text first."""
    own = words(text)
    return sorted(
        range(len(lines)), key=lambda n: -len(own & words(lines[n])) / (6 + len(words(lines[n])))
    )


class Replies:
    """Makes a task of a question, its text and a written reply."""

    def __init__(self, texts: Sequence[Text]) -> None:
        self.texts = {text.name: text for text in texts}
        self._all = list(texts)

    def shown(
        self, text: Text, question: str, answer: str | None, rng: random.Random
    ) -> tuple[str, int]:
        """The prompt with up to three lines, and the number of the one that answers."""
        lines = text.lines()
        seen = [(line.context, line.text) for line in lines]
        order = nearest(question, [f"{line.text} {line.context}" for line in lines])
        right = [n for n, line in enumerate(lines) if answer and same(line.text, answer)]
        others = [seen[n] for n in order if n not in right]
        if rng.random() < 0.3:
            stranger = rng.choice(self._all).lines()
            others += [
                (line.context, line.text) for line in rng.sample(stranger, min(2, len(stranger)))
            ]
            rng.shuffle(others)
        count = rng.choice((0, 1, 1, 2, 2, 2)) if right else rng.choice((1, 2, 3))
        chosen = [*(seen[n] for n in right[:1]), *others[:count]]
        if rng.random() < 0.4:
            rng.shuffle(chosen)
        first = rng.choice(_CITED_FROM)
        place = chosen.index(seen[right[0]]) if right else -1
        return lines_prompt(chosen, first), first + place if right else 0

    def task(self, name: str, reply: str, rng: random.Random) -> tuple[Messages, str] | None:
        """The task of a reply by its name: the text's, then which of its questions."""
        stem, _, number = name.rpartition(":")
        text = self.texts.get(stem)
        if text is None:
            return None
        kind, at = number[0], int(number[1:])
        question, answer = text.asked[at] if kind == "a" else (text.unasked[at], None)
        system, cited = self.shown(text, question, answer, rng)
        return [("system", system), ("user", question)], f"{reply} [{cited}]" if cited else reply

    def of_chat(self, row: dict[str, Any], rng: random.Random) -> list[tuple[Messages, str]]:
        """The tasks of a conversation: to make its follow-ups stand alone, and to answer them."""
        made: list[tuple[Messages, str]] = []
        talk: Messages = []
        for question, reply, alone in row["turns"]:
            told: Messages = [*talk, ("user", question)]
            if alone is not None or talk:
                made.append(([("system", ALONE), ("user", transcript(told))], alone or question))
            text = self.texts.get(row["id"])
            if text is not None and alone != "-":
                lines = text.lines()
                best = nearest(reply, [line.text for line in lines])
                if lines and len(words(reply) & words(lines[best[0]].text)) > 1:
                    system, cited = self.shown(text, alone or question, lines[best[0]].text, rng)
                    made.append(
                        ([("system", system), ("user", alone or question)], f"{reply} [{cited}]")
                    )
            talk = [*told, ("assistant", reply)]
        return made


def tasks(folder: Path, data: Path | None, rng: random.Random) -> tuple[list[Any], list[Any]]:
    """All tasks, and those kept apart, as messages with what is to be written."""
    texts = read_texts(folder / "questions")
    replies = Replies(texts)
    kept = {text.name for text in texts if held_out(text.text)}
    learnt, apart = list[Any](), list[Any]()
    for path in sorted(folder.glob("replies*.tsv")):
        for name, reply in csv.reader(
            path.open(encoding="utf-8"), delimiter="\t", quoting=csv.QUOTE_NONE
        ):
            for _ in range(1 if name.rpartition(":")[0] in kept else 2):
                if made := replies.task(name, reply.strip(), rng):
                    (apart if name.rpartition(":")[0] in kept else learnt).append(made)
    for line in (folder / "chats.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        (apart if row["id"] in kept else learnt).extend(replies.of_chat(row, rng))
    for number, line in enumerate((folder / "everyday.jsonl").read_text("utf-8").splitlines()):
        row = json.loads(line)
        made = [("system", EVERYDAY), ("user", row["q"])], row["reply"]
        (apart if number % 20 == 0 else learnt).append(made)
    if data is not None:
        for row in json.loads((data / "canard_dev.json").read_text("utf-8")):
            turns = row["History"][2:]
            if not turns:
                continue
            talk = [("user" if n % 2 == 0 else "assistant", text) for n, text in enumerate(turns)]
            talk = [*talk[-4:], ("user", row["Question"])]
            learnt.append(([("system", ALONE), ("user", transcript(talk))], row["Rewrite"]))
    return learnt, apart


def sampled(tokenizer: Any, messages: Messages, reply: str) -> Sample:
    """A task in tokens, under the model's chat template."""
    turns = [{"role": role, "content": text} for role, text in messages]
    shown = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
        return ids

    return Sample(encode(shown), encode(reply + "<|im_end|>"))


def main() -> None:
    """Train the adapter and write it; print what it says of what was kept apart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=240)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--few", type=int, default=0)
    options = parser.parse_args()
    model, tokenizer = load(options.model)
    learnt, apart = tasks(FOLDER, options.data, random.Random(1))
    if options.few:
        learnt, apart = random.Random(2).sample(learnt, options.few), apart[: options.few]
    samples = [sampled(tokenizer, *each) for each in learnt]
    kept = [sampled(tokenizer, *each) for each in apart]
    print(f"{len(samples)} tasks, {sum(len(s.prompt) + len(s.reply) for s in samples)} tokens, "
          f"{len(kept)} apart: loss {measured(model, kept):.3f}", flush=True)  # fmt: skip
    adapt(model)
    tune(model, samples, RATE, options.minutes, options.epochs)
    save_adapter(model, options.out)
    print(f"apart: loss {measured(model, kept):.3f}", flush=True)
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    shown = random.Random(3).sample(range(len(kept)), min(40, len(kept)))
    shown.sort(key=lambda n: len(kept[n].prompt))
    for n, text in zip(
        shown, written(model, tokenizer, [kept[n].prompt for n in shown], 60, end), strict=True
    ):
        print(f"{apart[n][0]!r}\n  wanted: {apart[n][1]}\n  wrote:  {text}", flush=True)


if __name__ == "__main__":
    main()
