"""The tokenizer: byte-level BPE with single digits and case-stable words.

A space before a capital letter or a digit is a token of its own, so that a name or a code has the
same tokens at the start of a sentence, inside it and in a question: this makes copying easier.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

from training.data.corpus import book_paragraphs, grounded_questions, wikitext_paragraphs
from training.data.special import ASSISTANT, DOC, END, PAD, SPECIAL_TOKENS, USER

VOCABULARY = 8192
LEXICON_REPEATS = 1500

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'system' -%}{{- '<|doc|>' + message['content'] -}}"
    "{%- elif message['role'] == 'user' -%}{{- '<|user|>' + message['content'] -}}"
    "{%- elif message['role'] == 'assistant' -%}"
    "{{- '<|assistant|>' + message['content'] + '<|end|>' -}}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)

_WORDS = Regex(
    r"'(?:s|t|re|ve|m|ll|d)(?!\p{L})"
    r"|\p{N}"
    r"|[\p{Lu}\p{Lt}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"| ?[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"| ?[^\s\p{L}\p{N}\p{M}]+"
    r"|[\r\n]+"
    r"|\s+(?!\S)"
    r"|\s"
)


def _training_text(data: Path, lexicon: Path) -> Iterator[str]:
    rng = random.Random(1)
    words = lexicon.read_text(encoding="utf-8").split()
    for _ in range(LEXICON_REPEATS):
        rng.shuffle(words)
        yield " ".join(words)
        yield " ".join(word.capitalize() for word in words if rng.random() < 0.3)
    for paragraph in book_paragraphs(data, limit_bytes=15_000_000):
        yield paragraph
    for paragraph in wikitext_paragraphs(data):
        yield paragraph
        yield paragraph
    for row in grounded_questions(data):
        yield row.context
        yield row.question


def train_tokenizer(data: Path, lexicon: Path) -> PreTrainedTokenizerFast:
    """Train the tokenizer from the raw text and a list of everyday words."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(_WORDS, behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_training_text(data, lexicon), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[DOC, USER, ASSISTANT],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
    )


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    """Write tokenizer.json and its configuration, so that ``AutoTokenizer`` takes them as they are.

    For the model type ``qwen2``, transformers 5 puts ``Qwen2Tokenizer`` in the place of any other
    class, with its own way of splitting words. An ``auto_map`` entry, which is never followed
    unless remote code is trusted, keeps it from doing so.
    """
    tokenizer.save_pretrained(out, save_jinja_files=False)
    path = out / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config.pop("backend", None)
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    config["auto_map"] = {"AutoTokenizer": ["PreTrainedTokenizerFast", "PreTrainedTokenizerFast"]}
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
