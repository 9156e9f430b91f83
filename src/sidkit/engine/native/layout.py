"""The structures that kernels.c shares with Python, field by field as in layout.h."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_double, c_float, c_int32, c_int64, c_void_p

__all__ = ["MAX_K", "CodebookStruct", "JobStruct", "StepStruct"]

MAX_K = 16  # the most codewords a row can be given


class CodebookStruct(ctypes.Structure):
    """A codebook; Python owns the arrays, sidkit_pack fills them."""

    _fields_ = (
        ("size", c_int64),
        ("d", c_int64),
        ("panels", c_int64),
        ("padded", c_int64),
        ("exact", c_void_p),
        ("offset", c_void_p),
        ("rows", c_void_p),
        ("bytes", c_void_p),
        ("pairs", c_void_p),
        ("scale", c_void_p),
        ("shift", c_void_p),
        ("plain", c_void_p),
        ("reach", c_double),
        ("slip", c_double),
        ("skid", c_double),
        ("slack", c_double),
        ("zero", c_int32 * MAX_K),
        ("usable", c_int32),
    )


class StepStruct(ctypes.Structure):
    """One stage that rows go through."""

    _fields_ = (
        ("vectors", c_void_p),
        ("book", POINTER(CodebookStruct)),
        ("column", c_int64),
        ("keep", c_float),
        ("rest", c_float),
        ("normalize", c_int32),
        ("last", c_int32),
    )


class JobStruct(ctypes.Structure):
    """Rows, what happens to them, and where the results go; see layout.h."""

    _fields_ = (
        ("x", c_void_p),
        ("n", c_int64),
        ("d", c_int64),
        ("steps", POINTER(StepStruct)),
        ("nsteps", c_int64),
        ("codes", c_void_p),
        ("width", c_int64),
        ("out", c_void_p),
        ("book", POINTER(CodebookStruct)),
        ("k", c_int64),
        ("index", c_void_p),
        ("score", c_void_p),
        ("mass", c_void_p),
        ("total", c_void_p),
        ("objective", c_void_p),
        ("beta", c_double),
        ("scale", c_double),
        ("threads", c_int64),
        ("screen", c_int64),
        ("rescored", c_int64),
        ("swept", c_int64),
    )
