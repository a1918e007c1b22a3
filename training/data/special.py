"""The special tokens, in the order of their ids."""

DOC, USER, ASSISTANT, END, PAD = "<|doc|>", "<|user|>", "<|assistant|>", "<|end|>", "<|pad|>"
SPECIAL_TOKENS = (DOC, USER, ASSISTANT, END, PAD)
