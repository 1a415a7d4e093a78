"""A byte-level BPE vocabulary, built from a GGUF file's own tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from headway.errors import StartupError

CONTROL_TOKEN = 3
"""GGUF's token type of tokens that stand for no text."""

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
_PRE_TOKENIZERS = {
    "smollm": (pre_tokenizers.Digits(individual_digits=True),),
    "gpt-2": (),
    "default": (),
}


class GgufVocabulary:
    """Tokens of a GGUF file whose tokenizer is of the gpt2 kind."""

    def __init__(self, fields: Mapping[str, Any], *, chat: bool) -> None:
        """`chat`: texts are the user's turn of a ChatML conversation; else they go on as given.

        Raises:
          StartupError: a tokenizer of another kind.
        """
        model, kind = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre")
        if model != "gpt2" or kind not in _PRE_TOKENIZERS:
            raise StartupError(
                f"the file's tokenizer is {model!r}/{kind!r}; the decoder runtime knows gpt2 with "
                f"{', '.join(sorted(_PRE_TOKENIZERS))}; use the llama runtime for others"
            )
        self._names: Sequence[str] = fields["tokenizer.ggml.tokens"]
        types: Sequence[int] = fields["tokenizer.ggml.token_type"]
        self._controls = frozenset(i for i, kind in enumerate(types) if kind == CONTROL_TOKEN)
        self._tokenizer = _tokenizer(fields, self._names, self._controls, kind)
        self._chat = chat
        self._bytes = _byte_of_character()
        by_name = {self._names[token]: token for token in self._controls}
        ends = {fields["tokenizer.ggml.eos_token_id"]}
        ends |= {by_name[name] for name in ("<|im_end|>", "<|endoftext|>") if name in by_name}
        self._ends = frozenset(ends)

    @property
    def size(self) -> int:
        """Number of tokens."""
        return len(self._names)

    @property
    def ends(self) -> frozenset[int]:
        """Tokens that end an output."""
        return self._ends

    def encode(self, text: str) -> list[int]:
        """Tokens of a text. Control tokens written out in it are text, not control."""
        if not self._chat:
            return self._plain(text)
        control = {self._names[token]: token for token in self._controls}
        start, end = control["<|im_start|>"], control["<|im_end|>"]
        newline = self._plain("\n")
        return [
            start, *self._plain(f"system\n{SYSTEM}"), end, *newline,
            start, *self._plain(f"user\n{text}"), end, *newline,
            start, *self._plain("assistant\n"),
        ]  # fmt: skip

    def piece(self, token: int) -> bytes:
        """Bytes of a token; none for control tokens."""
        if token in self._controls:
            return b""
        return bytes(self._bytes[character] for character in self._names[token])

    def _plain(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)


def _tokenizer(
    fields: Mapping[str, Any], names: Sequence[str], controls: frozenset[int], kind: str
) -> Tokenizer:
    merges = [tuple(merge.split(" ", 1)) for merge in fields["tokenizer.ggml.merges"]]
    vocabulary = {name: token for token, name in enumerate(names)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*_PRE_TOKENIZERS[kind], byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    # Known as special, so that `encode` with encode_special_tokens leaves them alone in texts.
    tokenizer.add_special_tokens(
        [AddedToken(names[token], special=True) for token in sorted(controls)]
    )
    tokenizer.encode_special_tokens = True
    return tokenizer


def _byte_of_character() -> dict[str, int]:
    """The byte that each character of a byte-level vocabulary stands for.

    Printable bytes stand for themselves; the others have characters from U+0100 on.

    Source: Radford and others, GPT-2, 2019.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in set(printable)]
    table |= {chr(256 + index): byte for index, byte in enumerate(others)}
    return table
