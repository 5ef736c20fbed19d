"""Layers as pairs of functions: init(rng, input_shape) -> (output_shape, params), apply(params, inputs, rng=None) -> outputs."""

import functools
import math

import fgrad.numpy as jnp
from fgrad import lax, random
from fgrad.api import eval_shape
from fgrad.api.common import ShapeDtypeStruct
from fgrad.nn import elu, gelu, leaky_relu, log_softmax, relu, selu, sigmoid, softmax, softplus, standardize
from fgrad.nn.initializers import glorot_normal, normal, ones, zeros

glorot = glorot_normal
randn = normal
logsoftmax = log_softmax
_GLOROT, _NORMAL, _SMALL = glorot_normal(), normal(), normal(1e-6)


def _shape(fun, *shapes):
    return eval_shape(fun, *[ShapeDtypeStruct(tuple(s), jnp.float32) for s in shapes]).shape


def Dense(out_dim, W_init=_GLOROT, b_init=_NORMAL):
    """inputs @ W + b, W (inputs.shape[-1], out_dim).

    >>> import fgrad.numpy as jnp
    >>> from fgrad import random
    >>> from fgrad.example_libraries import stax
    >>> init, apply = stax.serial(stax.Dense(8), stax.Relu, stax.Dense(2))
    >>> shape, params = init(random.key(0), (-1, 4))
    >>> shape, apply(params, jnp.ones((5, 4))).shape
    ((-1, 2), (5, 2))
    """

    def init_fun(rng, input_shape):
        k1, k2 = random.split(rng)
        return (*input_shape[:-1], out_dim), (W_init(k1, (input_shape[-1], out_dim)), b_init(k2, (out_dim,)))

    def apply_fun(params, inputs, **kwargs):
        W, b = params
        return jnp.dot(inputs, W) + b

    return init_fun, apply_fun


def _convolution(dimension_numbers, out_chan, filter_shape, W_init, b_init, convolve):
    lhs, rhs, out = dimension_numbers
    W_init = W_init or glorot_normal(rhs.index("I"), rhs.index("O"))

    def init_fun(rng, input_shape):
        sizes = iter(filter_shape)
        channels = {"O": out_chan, "I": input_shape[lhs.index("C")]}
        kernel_shape = [channels[c] if c in channels else next(sizes) for c in rhs]
        batch = lhs.index("N")
        known = [1 if i == batch else n for i, n in enumerate(input_shape)]
        output_shape = list(_shape(convolve, known, kernel_shape))
        output_shape[out.index("N")] = input_shape[batch]
        k1, k2 = random.split(rng)
        bias_shape = [out_chan if c == "C" else 1 for c in out]
        return tuple(output_shape), (W_init(k1, tuple(kernel_shape)), b_init(k2, tuple(bias_shape)))

    def apply_fun(params, inputs, **kwargs):
        W, b = params
        return convolve(inputs, W) + b

    return init_fun, apply_fun


def GeneralConv(dimension_numbers, out_chan, filter_shape, strides=None, padding="VALID", W_init=None, b_init=_SMALL):
    """A convolution with bias; dimension_numbers are those of lax.conv_general_dilated."""
    one = (1,) * len(filter_shape)
    convolve = lambda x, w: lax.conv_general_dilated(x, w, strides or one, padding, one, one, dimension_numbers=dimension_numbers)
    return _convolution(dimension_numbers, out_chan, filter_shape, W_init, b_init, convolve)


def GeneralConvTranspose(dimension_numbers, out_chan, filter_shape, strides=None, padding="VALID", W_init=None, b_init=_SMALL):
    """A transposed convolution with bias."""
    one = (1,) * len(filter_shape)
    convolve = lambda x, w: lax.conv_transpose(x, w, strides or one, padding, dimension_numbers=dimension_numbers)
    return _convolution(dimension_numbers, out_chan, filter_shape, W_init, b_init, convolve)


Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))


def BatchNorm(axis=(0, 1, 2), epsilon=1e-5, center=True, scale=True, beta_init=zeros, gamma_init=ones):
    """Inputs standardised over `axis`, times gamma plus beta; there are no running means."""
    axis = (axis,) if jnp.isscalar(axis) else axis

    def init_fun(rng, input_shape):
        shape = tuple(d for i, d in enumerate(input_shape) if i not in axis)
        k1, k2 = random.split(rng)
        return input_shape, (beta_init(k1, shape) if center else (), gamma_init(k2, shape) if scale else ())

    def apply_fun(params, x, **kwargs):
        beta, gamma = params
        spread = tuple(None if i in axis else slice(None) for i in range(jnp.ndim(x)))
        z = standardize(x, axis, epsilon=epsilon)
        z = gamma[spread] * z if scale else z
        return z + beta[spread] if center else z

    return init_fun, apply_fun


def elementwise(fun, **fun_kwargs):
    """The layer of an elementwise function."""
    return lambda rng, input_shape: (input_shape, ()), lambda params, inputs, **kwargs: fun(inputs, **fun_kwargs)


Tanh = elementwise(jnp.tanh)
Relu = elementwise(relu)
Exp = elementwise(jnp.exp)
LogSoftmax = elementwise(log_softmax, axis=-1)
Softmax = elementwise(softmax, axis=-1)
Softplus = elementwise(softplus)
Sigmoid = elementwise(sigmoid)
Elu = elementwise(elu)
LeakyRelu = elementwise(leaky_relu)
Selu = elementwise(selu)
Gelu = elementwise(gelu)
Identity = elementwise(lambda x: x)


def _pool(name, doc, reducer, start, mean=False):
    def layer(window_shape, strides=None, padding="VALID", spec=None):
        others = sorted((0, len(window_shape) + 1) if spec is None else (spec.index("N"), spec.index("C")))
        window, steps = list(window_shape), list(strides or (1,) * len(window_shape))
        for i in others:
            window.insert(i, 1)
            steps.insert(i, 1)

        def pooled(x):
            return lax.reduce_window(x, start, reducer, tuple(window), tuple(steps), padding)

        def init_fun(rng, input_shape):
            known = [1 if i in others else n for i, n in enumerate(input_shape)]
            out = list(_shape(pooled, known))
            return tuple(input_shape[i] if i in others else n for i, n in enumerate(out)), ()

        def apply_fun(params, inputs, **kwargs):
            out = pooled(inputs)
            if not mean:
                return out
            counts = pooled(jnp.ones([1 if i in others else n for i, n in enumerate(inputs.shape)], inputs.dtype))
            return out / counts

        return init_fun, apply_fun

    layer.__name__ = layer.__qualname__ = name
    layer.__doc__ = doc
    return layer


MaxPool = _pool("MaxPool", "Maxima over windows of the spatial axes; spec names the axes, as NHWC.", lax.max, -math.inf)
SumPool = _pool("SumPool", "Sums over windows of the spatial axes.", lax.add, 0.0)
AvgPool = _pool("AvgPool", "Means over windows of the spatial axes; padding does not count.", lax.add, 0.0, mean=True)

Flatten = (
    lambda rng, input_shape: ((input_shape[0], math.prod(input_shape[1:])), ()),
    lambda params, inputs, **kwargs: jnp.reshape(inputs, (inputs.shape[0], -1)),
)


def FanOut(num):
    """The layer whose output is a list of `num` copies of its input."""
    return lambda rng, input_shape: ([input_shape] * num, ()), lambda params, inputs, **kwargs: [inputs] * num


FanInSum = (lambda rng, input_shape: (input_shape[0], ()), lambda params, inputs, **kwargs: sum(inputs))


def FanInConcat(axis=-1):
    """The layer that concatenates the arrays in its input."""

    def init_fun(rng, input_shape):
        out = list(input_shape[0])
        out[axis] = sum(shape[axis] for shape in input_shape)
        return tuple(out), ()

    return init_fun, lambda params, inputs, **kwargs: jnp.concatenate(inputs, axis)


def Dropout(rate, mode="train"):
    """Inputs kept with probability `rate` and divided by it; as they are where mode is not "train". Applying it needs rng=key."""

    def apply_fun(params, inputs, **kwargs):
        rng = kwargs.get("rng")
        if rng is None:
            raise ValueError("Dropout layer requires apply_fun to be called with a PRNG key argument: apply_fun(params, inputs, rng=key).")
        if mode != "train":
            return inputs
        return jnp.where(random.bernoulli(rng, rate, inputs.shape), inputs / rate, 0)

    return lambda rng, input_shape: (input_shape, ()), apply_fun


def _keys(kwargs, count):
    rng = kwargs.pop("rng", None)
    return (None,) * count if rng is None else random.split(rng, count)


def serial(*layers):
    """Layers one after another."""
    init_funs, apply_funs = zip(*layers)

    def init_fun(rng, input_shape):
        params = []
        for init in init_funs:
            rng, layer_rng = random.split(rng)
            input_shape, param = init(layer_rng, input_shape)
            params.append(param)
        return input_shape, params

    def apply_fun(params, inputs, **kwargs):
        for fun, param, rng in zip(apply_funs, params, _keys(kwargs, len(layers))):
            inputs = fun(param, inputs, rng=rng, **kwargs)
        return inputs

    return init_fun, apply_fun


def parallel(*layers):
    """Layers side by side, each with its own of the inputs; the output is a list. FanOut makes the inputs."""
    init_funs, apply_funs = zip(*layers)

    def init_fun(rng, input_shape):
        rngs = random.split(rng, len(layers))
        return tuple(zip(*[init(key, shape) for init, key, shape in zip(init_funs, rngs, input_shape)]))

    def apply_fun(params, inputs, **kwargs):
        rngs = _keys(kwargs, len(layers))
        return [f(p, x, rng=r, **kwargs) for f, p, x, r in zip(apply_funs, params, inputs, rngs)]

    return init_fun, apply_fun


def shape_dependent(make_layer):
    """The layer that make_layer(input_shape) gives, made when the shape is known."""
    return (
        lambda rng, input_shape: make_layer(input_shape)[0](rng, input_shape),
        lambda params, inputs, **kwargs: make_layer(inputs.shape)[1](params, inputs, **kwargs),
    )
