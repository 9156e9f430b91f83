"""The retriever's Triton kernels."""
