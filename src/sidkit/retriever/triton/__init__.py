"""The retriever's Triton kernels, and what launches them; backend.py decides when they are used.

layers, t5_blocks, matmul_kernels, attention_kernels   the forward pass of network.py, with gradients
step, step_kernels                                     batches, embeddings, the loss and Adam
search_blocks, search_kernels                          beam search
functions                                              what kernels share
"""
