"""Keeping any generative model to semantic IDs that exist.

    tokens                which token of a model's vocabulary stands for which code; the tokens around a SID
    device_trie           tries as tensors on a device
    constraint            the state of every row, and the mask of the tokens that may follow
    catalogue             a trie with its tokens in a folder, memory-mapped
    transformers          `SidLogitsProcessor` for `generate`, and what it generated as SIDs
    vllm, sglang          the same constraint as classes that these servers load

Needs torch (the 'torch' extra); `catalogue`, `tokens` and the trie itself do not.
"""
