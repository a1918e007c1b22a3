"""Train the writer's adapter: `python -m training.writer --model SMOLLM2.gguf --data DATA --out F`.

It learns to make a question stand alone without its conversation, and to talk about everyday things
in its own person.
"""

from __future__ import annotations

import argparse
import json
import random
from functools import partial
from pathlib import Path
from typing import Any

from app.generation import everyday
from dragon.models.instructions import ALONE, EVERYDAY, transcript
from training.texts import FOLDER, held_out, read_texts
from training.tuning import Sample, adapt, load, measured, save_adapter, tune, written

Messages = list[tuple[str, str]]
RATE = 4e-4


def rewritten(row: dict[str, Any]) -> list[tuple[Messages, str]]:
    """The tasks of a conversation: to rewrite its follow-ups so that they stand alone."""
    made: list[tuple[Messages, str]] = []
    talk: Messages = []
    for question, reply, alone in row["turns"]:
        told: Messages = [*talk, ("user", question)]
        if alone is not None or talk:
            made.append(([("system", ALONE), ("user", transcript(told))], alone or question))
        talk = [*told, ("assistant", reply)]
    return made


def tasks(data: Path | None) -> tuple[list[Any], list[Any]]:
    """Tasks to train on, and held-out ones: messages with the wanted reply."""
    kept = {text.name for text in read_texts() if held_out(text.text)}
    learnt, apart = list[Any](), list[Any]()
    for line in (FOLDER / "chats.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        (apart if row["id"] in kept else learnt).extend(rewritten(row))
    for number, each in enumerate(everyday.read()):
        made = [("system", EVERYDAY), ("user", each.message)], each.reply
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
    turns = [{"role": role, "content": text} for role, text in messages]
    shown = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)

    encode = partial(tokenizer.encode, add_special_tokens=False)
    return Sample(encode(shown), encode(reply + "<|im_end|>"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=240)
    parser.add_argument("--epochs", type=int, default=4)
    options = parser.parse_args()
    model, tokenizer = load(options.model)
    learnt, apart = tasks(options.data)
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
