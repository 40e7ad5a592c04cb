"""The same call by native code and by plain PyTorch: both raise, or their results are close."""

from collections.abc import Callable
from unittest import mock

from torch import Tensor

from ea_fairseq.kernels import dispatch as backend
from ea_fairseq.kernels.cpu import native_library


def outcome(call: Callable[[], list[Tensor]]) -> list[Tensor] | Exception:
    """What a call returns, or the exception that it raises."""
    try:
        return call()
    except (ArithmeticError, AssertionError, IndexError, RuntimeError, TypeError, ValueError) as error:
        return error


def compare(call: Callable[[], list[Tensor]], tolerance: float) -> str:
    """Has native code do what plain PyTorch does; returns what that came to.

    Raises:
        AssertionError: where they differ.
    """
    ran = []

    def counted(function):
        return lambda *args, **fields: ran.append(function) or function(*args, **fields)

    with mock.patch.object(backend, "backend", "reference"):
        expected = outcome(call)
    with (
        mock.patch.object(native_library, "function", counted(native_library.function)),
        mock.patch.object(backend, "backend", "native"),
    ):
        found = outcome(call)
    refused = assert_alike(found, expected, tolerance)
    return "refused" if refused else "kernels" if ran else "PyTorch"


def assert_alike(native, expected, tolerance: float) -> bool:
    """Both raise, or their results are close; returns whether they raise."""
    raised = isinstance(native, Exception), isinstance(expected, Exception)
    assert raised[0] == raised[1], f"native code: {native!r}, PyTorch: {expected!r}"
    if raised[0]:
        return True
    assert len(native) == len(expected)
    for found, right in zip(native, expected, strict=True):
        assert (found is None) == (right is None)
        if right is not None:
            assert found.shape == right.shape
            assert found.dtype == right.dtype
            difference = (found.double() - right.double()).norm().item()
            assert difference <= tolerance * max(right.double().norm().item(), 1.0), f"differs by {difference:.2g}"
    return False
