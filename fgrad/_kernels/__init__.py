"""Everything that touches memory.  KERNELS maps a kernel's name to its (run, check) addresses."""

from fgrad._kernels import (
    attention,
    cumulative,
    elementwise,
    glu,
    index,
    loss,
    matmul,
    movement,
    norm,
    optimizer,
    random,
    rope,
    softmax,
    sort,
)

KERNELS: dict = {}
for _module in (attention, cumulative, elementwise, glu, index, loss, matmul, movement, norm, optimizer, random, rope, softmax, sort):
    KERNELS.update(_module.KERNELS)
