"""What all sparse arrays are."""

import math
from typing import Any


class JAXSparse:
    """The class of which every sparse array is an instance: isinstance(x, sparse.JAXSparse) tells them from dense ones.

    >>> from fgrad.experimental import sparse
    >>> isinstance(sparse.eye(2), sparse.JAXSparse), isinstance(fgrad.numpy.eye(2), sparse.JAXSparse)
    (True, False)
    """

    __array_priority__ = 200  # NumPy arrays leave operators to it
    data: Any
    shape: tuple[int, ...]
    ndim: Any = property(lambda self: len(self.shape))
    size = property(lambda self: math.prod(self.shape))
    dtype: Any = property(lambda self: self.data.dtype)
    T: Any = property(lambda self: self.transpose())

    def transpose(self, axes=None):
        raise NotImplementedError(f"{type(self).__name__}.transpose")

    def __len__(self):
        return self.shape[0]

    def block_until_ready(self):
        return self
