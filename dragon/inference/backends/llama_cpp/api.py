"""llama.cpp's C API, as the extension module of the xllamacpp wheel exports it.

The declarations are those of one version. With another they would fail silently, so a library is
refused unless its versions and all defaults of its structures are the expected ones.
"""

from __future__ import annotations

import importlib.util
import logging
from collections import deque
from functools import cache
from pathlib import Path
from typing import Any

import cffi

from dragon.errors import ConfigurationError

log = logging.getLogger(__name__)

INSTALL = "pip install dragon-rag"
NO_ROOM = 1
"""The status of `llama_decode` if there are too few cells; it has computed nothing then."""
ABORTED = 2
"""Its status once its abort callback has returned true."""

VERSIONS = {"llama_version": "0.6.0-dev", "ggml_version": "0.26.0"}
"""Versions of the library whose structures are declared here: xllamacpp 2026.10.11549."""

DECLARATIONS = """
typedef void *model_t, *context_t, *memory_t, *vocab_t, *adapter_t;
typedef int32_t seq_t, pos_t, token_t;

typedef struct {
    void *devices, *tensor_buft_overrides;
    int32_t n_gpu_layers, split_mode, load_mode, lazy_mode, main_gpu;
    void *tensor_split, *progress_callback, *progress_callback_data, *kv_overrides;
    bool vocab_only, check_tensors, use_extra_bufts, no_host, no_alloc, load_mtp;
} model_params;

typedef struct {
    uint32_t n_ctx, n_batch, n_ubatch, n_seq_max, n_rs_seq, n_outputs_max, n_outputs_max_per_seq;
    int32_t n_threads, n_threads_batch;
    int32_t ctx_type, rope_scaling_type, pooling_type, attention_type, flash_attn_type;
    float rope_freq_base, rope_freq_scale;
    float yarn_ext_factor, yarn_attn_factor, yarn_beta_fast, yarn_beta_slow;
    uint32_t yarn_orig_ctx;
    float defrag_thold;
    void *cb_eval, *cb_eval_data;
    int32_t type_k, type_v;
    void *abort_callback, *abort_callback_data, *reserved;
    bool embeddings, offload_kqv, no_perf, op_offload, swa_full, kv_unified;
    void *samplers;
    size_t n_samplers;
    void *ctx_other;
} context_params;

typedef struct {
    int32_t n_tokens;
    token_t *token;
    float *embd;
    pos_t *pos;
    int32_t *n_seq_id;
    seq_t **seq_id;
    int8_t *logits;
} batch_t;

const char *llama_version(void);
const char *ggml_version(void);
const char *llama_print_system_info(void);
void llama_backend_init(void);
void llama_log_set(void (*log)(int level, const char *text, void *data), void *data);

model_params llama_model_default_params(void);
model_t llama_model_load_from_file(const char *path, model_params params);
void llama_model_free(model_t model);
bool llama_model_is_recurrent(model_t model);
bool llama_model_is_hybrid(model_t model);
vocab_t llama_model_get_vocab(model_t model);
int32_t llama_vocab_n_tokens(vocab_t vocab);

context_params llama_context_default_params(void);
context_t llama_init_from_model(model_t model, context_params params);
void llama_free(context_t context);
uint32_t llama_n_ctx(context_t context);
uint32_t llama_n_ctx_seq(context_t context);
uint32_t llama_n_batch(context_t context);
uint32_t llama_n_ubatch(context_t context);
uint32_t llama_n_seq_max(context_t context);
int32_t llama_n_threads(context_t context);
int32_t llama_n_threads_batch(context_t context);

int32_t llama_decode(context_t context, batch_t batch);
float *llama_get_logits(context_t context);
void llama_set_abort_callback(context_t context, bool (*abort)(void *data), void *data);

memory_t llama_get_memory(context_t context);
bool llama_memory_seq_rm(memory_t memory, seq_t seq, pos_t start, pos_t end);
void llama_memory_seq_cp(memory_t memory, seq_t from, seq_t to, pos_t start, pos_t end);

size_t llama_state_get_size(context_t context);
size_t llama_state_get_data(context_t context, uint8_t *to, size_t size);
size_t llama_state_set_data(context_t context, const uint8_t *from, size_t size);
size_t llama_state_seq_get_size(context_t context, seq_t seq);
size_t llama_state_seq_get_data(context_t context, uint8_t *to, size_t size, seq_t seq);
size_t llama_state_seq_set_data(context_t context, const uint8_t *from, size_t size, seq_t seq);

adapter_t llama_adapter_lora_init(model_t model, const char *path);
int32_t llama_set_adapters_lora(context_t context, adapter_t *adapters, size_t n, float *scales);

size_t strlen(const char *text);
"""

_MODEL_DEFAULTS = {
    "n_gpu_layers": -1,
    "split_mode": 1,
    "load_mode": -1,
    "lazy_mode": 1,
    "use_extra_bufts": True,
}
_CONTEXT_DEFAULTS = {
    "n_ctx": 512,
    "n_batch": 2048,
    "n_ubatch": 512,
    "n_seq_max": 1,
    "n_outputs_max_per_seq": 1,
    "n_threads": 4,
    "n_threads_batch": 4,
    "rope_scaling_type": -1,
    "pooling_type": -1,
    "attention_type": -1,
    "flash_attn_type": -1,
    "yarn_ext_factor": -1.0,
    "yarn_attn_factor": -1.0,
    "yarn_beta_fast": -1.0,
    "yarn_beta_slow": -1.0,
    "defrag_thold": -1.0,
    "type_k": 1,
    "type_v": 1,
    "offload_kqv": True,
    "no_perf": True,
    "op_offload": True,
    "swa_full": True,
}

FFI = cffi.FFI()
FFI.cdef(DECLARATIONS)
_COMPLAINTS: deque[str] = deque(maxlen=1)
_ERROR = 4  # a level of its log


@cache
def library() -> Any:
    """The library, checked and initialised. Raises `ConfigurationError` if none fits."""
    opened = FFI.dlopen(str(_path()))
    if refusal := misfit(opened):
        raise ConfigurationError(
            f"the installed xllamacpp contains another llama.cpp than this program supports "
            f"({refusal}): {INSTALL}"
        )
    opened.llama_log_set(_LOG, FFI.NULL)
    opened.llama_backend_init()
    return opened


def misfit(opened: Any) -> str:
    """The first mismatch with the declarations: a version, or a default in another place."""
    for name, wanted in VERSIONS.items():
        found = FFI.string(getattr(opened, name)()).decode()
        if found != wanted:
            return f"{name} {found}, not {wanted}"
    for structure, defaults in (
        (opened.llama_model_default_params(), _MODEL_DEFAULTS),
        (opened.llama_context_default_params(), _CONTEXT_DEFAULTS),
    ):
        for field, _ in FFI.typeof(structure).fields:
            value = getattr(structure, field)
            if isinstance(value, FFI.CData):
                value = value != FFI.NULL
            if value != defaults.get(field, 0):
                return f"{field} is {value}, not {defaults.get(field, 0)}"
    return ""


def complaint() -> str:
    """Return and clear the last error that llama.cpp logged."""
    return _COMPLAINTS.pop() if _COMPLAINTS else "it does not say why"


def strlen() -> Any:
    """C's strlen as an abort callback: it reads one byte and takes no lock.

    A callback in Python would wait for the interpreter hundreds of times per step.
    """
    return FFI.cast("bool (*)(void *)", FFI.addressof(FFI.dlopen(None), "strlen"))


@FFI.callback("void (int, const char *, void *)")  # type: ignore[untyped-decorator]
def _LOG(level: int, text: Any, _data: Any) -> None:  # noqa: N802
    """Log llama.cpp's messages, and keep its errors for `complaint`."""
    line = FFI.string(text).decode("utf-8", "replace").strip()
    log.debug("llama.cpp: %s", line)
    if level == _ERROR and line:
        _COMPLAINTS.append(line)


def _path() -> Path:
    """The library's file: importing the package takes memory for a server that is not used."""
    spec = importlib.util.find_spec("xllamacpp")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(f".gguf files need llama.cpp: {INSTALL}")
    folder = Path(next(iter(spec.submodule_search_locations)))
    if found := sorted(folder.glob("xllamacpp*.so")):
        return found[0]
    raise ConfigurationError(f"the installed xllamacpp has no llama.cpp in it: {INSTALL}")
