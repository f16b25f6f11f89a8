"""The functions of `tarbox.models.gamma` on a GPU (Triton): one pass over the parameters in either direction.

Special functions are asymptotic series at 6 or above, to which the recurrence brings smaller arguments
(Abramowitz and Stegun 6.1.41, 6.3.18, 6.4.12, 6.3.5, 6.4.6). Cut off where they are, the series are exact to 1e-9
there, which is beyond single precision. A program owns a row; lanes beyond the last dimension hold ones and count for
nothing.

Imported on CUDA only, or with TRITON_INTERPRET=1 in tests.
"""

# ruff: noqa: N803, N806 (shape suffixes, see STYLE.md; Triton's constants are upper case)
# Triton reads the annotations of its kernels, so they have none of ours:
# mypy: allow-untyped-defs, allow-incomplete-defs
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]
from torch import Tensor

_WIDTH: Final = 256


def _jit(function: Callable[..., Any]) -> Any:
    return triton.jit(function)


@_jit
def _far(x):
    """x, or x + 6 where x is below 6: where the series hold."""
    return tl.where(x < 6.0, x + 6.0, x)


@_jit
def _reciprocals(x):
    """The sum of 1 / (x + k), k from 0 to 5, where x is below 6; else 0."""
    near = 1.0 / x + 1.0 / (x + 1.0) + 1.0 / (x + 2.0) + 1.0 / (x + 3.0) + 1.0 / (x + 4.0) + 1.0 / (x + 5.0)
    return tl.where(x < 6.0, near, 0.0)


@_jit
def _log_product(x):
    """The logarithm of x (x + 1) ... (x + 5) where x is below 6; else 0."""
    near = tl.where(x < 6.0, x, 1.0)
    product = near * (near + 1.0) * (near + 2.0) * (near + 3.0) * (near + 4.0) * (near + 5.0)
    return tl.where(x < 6.0, tl.log(product), 0.0)


@_jit
def _far_digamma(y):
    z = 1.0 / (y * y)
    tail = z * (1.0 / 12.0 - z * (1.0 / 120.0 - z * (1.0 / 252.0 - z * (1.0 / 240.0))))
    return tl.log(y) - 0.5 / y - tail


@_jit
def _digamma(x):
    return _far_digamma(_far(x)) - _reciprocals(x)


@_jit
def _trigamma(x):
    y = _far(x)
    z = 1.0 / (y * y)
    tail = z * (1.0 / 6.0 - z * (1.0 / 30.0 - z * (1.0 / 42.0 - z * (1.0 / 30.0))))
    near = 1.0 / (x * x) + 1.0 / ((x + 1.0) * (x + 1.0)) + 1.0 / ((x + 2.0) * (x + 2.0))
    near += 1.0 / ((x + 3.0) * (x + 3.0)) + 1.0 / ((x + 4.0) * (x + 4.0)) + 1.0 / ((x + 5.0) * (x + 5.0))
    return (1.0 + tail) / y + 0.5 * z + tl.where(x < 6.0, near, 0.0)


@_jit
def _lgamma(x):
    y = _far(x)
    z = 1.0 / (y * y)
    tail = (1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z * (1.0 / 1680.0)))) / y
    return (y - 0.5) * tl.log(y) - y + 0.9189385332046727 + tail - _log_product(x)


@_jit
def _own(x):
    """x psi(x) - ln Gamma(x) - x: of a, b and a + b the last terms cancel, so great parameters keep their digits."""
    y = _far(x)
    z = 1.0 / (y * y)
    tail = (1.0 / 6.0 - z * (1.0 / 90.0 - z * (1.0 / 210.0 - z * (1.0 / 210.0)))) / y
    far = 0.5 * tl.log(y) - 1.4189385332046727 - tail
    shares = 1.0 / (x + 1.0) + 2.0 / (x + 2.0) + 3.0 / (x + 3.0) + 4.0 / (x + 4.0) + 5.0 / (x + 5.0)
    near = shares + _log_product(x) - 6.0 * _far_digamma(y)
    return far + tl.where(x < 6.0, near, 0.0)


@_jit
def _features_kernel(parameters, rows, own, D, TD: tl.constexpr):
    n = tl.program_id(0).to(tl.int64)
    total = tl.zeros([TD], dtype=tl.float32)
    for start in range(0, D, TD):
        d = start + tl.arange(0, TD)
        at = n * 2 * D + d
        a = tl.load(parameters + at, mask=d < D, other=1.0)
        b = tl.load(parameters + at + D, mask=d < D, other=1.0)
        at_whole = _digamma(a + b)
        tl.store(rows + at, _digamma(a) - at_whole, mask=d < D)
        tl.store(rows + at + D, _digamma(b) - at_whole, mask=d < D)
        total += tl.where(d < D, _own(a) + _own(b) - _own(a + b), 0.0)
    tl.store(own + n, tl.sum(total, axis=0))


@_jit
def _features_gradient_kernel(parameters, by_rows, by_own, out, D, TD: tl.constexpr):
    n = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * TD + tl.arange(0, TD)
    at = n * 2 * D + d
    a = tl.load(parameters + at, mask=d < D, other=1.0)
    b = tl.load(parameters + at + D, mask=d < D, other=1.0)
    for_a = tl.load(by_rows + at, mask=d < D, other=0.0)
    for_b = tl.load(by_rows + at + D, mask=d < D, other=0.0)
    g = tl.load(by_own + n)
    common = _trigamma(a + b) * (for_a + for_b + g * (a + b))
    tl.store(out + at, _trigamma(a) * (for_a + g * a) - common, mask=d < D)
    tl.store(out + at + D, _trigamma(b) * (for_b + g * b) - common, mask=d < D)


@_jit
def _log_beta_kernel(parameters, out, D, TD: tl.constexpr):
    n = tl.program_id(0).to(tl.int64)
    total = tl.zeros([TD], dtype=tl.float32)
    for start in range(0, D, TD):
        d = start + tl.arange(0, TD)
        a = tl.load(parameters + n * 2 * D + d, mask=d < D, other=1.0)
        b = tl.load(parameters + n * 2 * D + d + D, mask=d < D, other=1.0)
        total += tl.where(d < D, _lgamma(a) + _lgamma(b) - _lgamma(a + b), 0.0)
    tl.store(out + n, tl.sum(total, axis=0))


@_jit
def _log_beta_gradient_kernel(parameters, grad, out, D, TD: tl.constexpr):
    n = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * TD + tl.arange(0, TD)
    at = n * 2 * D + d
    a = tl.load(parameters + at, mask=d < D, other=1.0)
    b = tl.load(parameters + at + D, mask=d < D, other=1.0)
    g = tl.load(grad + n)
    at_whole = _digamma(a + b)
    tl.store(out + at, g * (_digamma(a) - at_whole), mask=d < D)
    tl.store(out + at + D, g * (_digamma(b) - at_whole), mask=d < D)


def fused_features(parameters: Tensor) -> tuple[Tensor, Tensor]:
    """`tarbox.models.gamma.features`, of any number of leading dimensions."""
    given, N, D = _rows(parameters)
    rows, own = torch.empty_like(given), torch.empty(parameters.shape[:-1], device=given.device)
    if N:
        _features_kernel[(N,)](given, rows, own, D, TD=_WIDTH, num_warps=4)
    return rows.view(parameters.shape), own


def fused_features_gradient(parameters: Tensor, by_rows: Tensor, by_own: Tensor) -> Tensor:
    """The gradient by the parameters, of the same shape."""
    given, N, D = _rows(parameters)
    out = torch.empty_like(given)
    if N:
        _features_gradient_kernel[(N, triton.cdiv(D, _WIDTH))](
            given, by_rows.contiguous(), by_own.contiguous(), out, D, TD=_WIDTH, num_warps=4
        )
    return out.view(parameters.shape)


def fused_log_beta(parameters: Tensor) -> Tensor:
    """`tarbox.models.gamma.log_beta`, of any number of leading dimensions."""
    given, N, D = _rows(parameters)
    out = torch.empty(parameters.shape[:-1], device=given.device)
    if N:
        _log_beta_kernel[(N,)](given, out, D, TD=_WIDTH, num_warps=4)
    return out


def fused_log_beta_gradient(parameters: Tensor, grad: Tensor) -> Tensor:
    """The gradient by the parameters, of the same shape."""
    given, N, D = _rows(parameters)
    out = torch.empty_like(given)
    if N:
        _log_beta_gradient_kernel[(N, triton.cdiv(D, _WIDTH))](given, grad.contiguous(), out, D, TD=_WIDTH, num_warps=4)
    return out.view(parameters.shape)


def _rows(parameters: Tensor) -> tuple[Tensor, int, int]:
    """(contiguous, the number of rows, the number of distributions in each)."""
    given = parameters.contiguous()
    return given, given.numel() // given.shape[-1], given.shape[-1] // 2
