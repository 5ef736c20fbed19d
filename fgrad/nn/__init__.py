"""Neural network functions: jax.nn's, and fused norms, rotary embeddings, attention and losses."""
from fgrad.nn import initializers
from fgrad.nn.activations import (
    celu,
    elu,
    gelu,
    glu,
    hard_sigmoid,
    hard_silu,
    hard_swish,
    hard_tanh,
    identity,
    leaky_relu,
    log_sigmoid,
    mish,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    soft_sign,
    softplus,
    sparse_plus,
    sparse_sigmoid,
    squareplus,
    swiglu,
    swish,
    tanh,
)
from fgrad.nn.attention import dot_product_attention
from fgrad.nn.functions import (
    layer_norm,
    log_softmax,
    logmeanexp,
    logsumexp,
    one_hot,
    rms_norm,
    rope,
    rope_angles,
    softmax,
    standardize,
)
from fgrad.nn.losses import (
    huber,
    huber_loss,
    l2_loss,
    mse,
    sigmoid_binary_cross_entropy,
    softmax_cross_entropy,
    softmax_cross_entropy_with_integer_labels,
    squared_error,
)

__all__ = [
    "celu", "dot_product_attention", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "huber", "huber_loss",
    "identity", "initializers", "l2_loss", "layer_norm", "leaky_relu", "log_sigmoid", "log_softmax", "logmeanexp", "logsumexp", "mish",
    "mse", "one_hot", "relu", "relu6", "rms_norm", "rope", "rope_angles", "selu", "sigmoid", "sigmoid_binary_cross_entropy", "silu",
    "soft_sign", "softmax", "softmax_cross_entropy", "softmax_cross_entropy_with_integer_labels", "softplus", "sparse_plus",
    "sparse_sigmoid", "squared_error", "squareplus", "standardize", "swiglu", "swish", "tanh",
]
