"""Keys: typed arrays of them (dtype key<fry>), or their plain uint32 words of shape (..., 2)."""

import math
from typing import NamedTuple

import numpy as np

import fgrad.numpy as jnp
from fgrad import array_tree as tree
from fgrad import dtypes, lax
from fgrad._kernels.eager_dispatch import install_keys
from fgrad.api import ShapeDtypeStruct
from fgrad.compile.eager import eager
from fgrad.config import config
from fgrad.core import Array, OverlayAval, OverlayType, ShapedArray, from_numpy, from_scalar
from fgrad.numpy.overlay import register_overlay
from fgrad.numpy.util import as_array
from fgrad.ops.random import threefry2x32
from fgrad.ops.shape import canonical_shape
from fgrad.random.counters import split_words

_IMPL = "threefry2x32"


class PRNGImpl(NamedTuple):
    """A generator, as an object."""

    key_shape: tuple
    name: str
    tag: str


THREEFRY = PRNGImpl((2,), _IMPL, "fry")


class KeyType(OverlayType):
    """The dtype of typed keys; there is one."""

    name, itemsize, type = "key<fry>", 8, dtypes.prng_key

    def struct(self, shape):
        """The ShapeDtypeStruct of keys: keys whose words have no values."""
        return KeyArray(ShapeDtypeStruct((*shape, 2), np.uint32))

    def aval(self, shape):
        return OverlayAval(shape, self, ShapedArray((*shape, 2), np.uint32))

    def of_words(self, words):
        """The keys of these words."""
        return KeyArray(words)

    def __repr__(self):
        return self.name

    def __eq__(self, other):
        return type(other) is KeyType

    def __hash__(self):
        return hash(KeyType)


KEY = KeyType()


def _word_index(index):
    """An index of keys as one of their words."""
    index = index if isinstance(index, tuple) else (index,)
    rest = () if any(i is Ellipsis for i in index) else (Ellipsis,)
    return (*index, *rest, slice(None))


class _KeyUpdates:
    """keys.at: index it for updates."""

    __slots__ = ("keys", "ref")

    def __init__(self, keys, ref=None):
        self.keys, self.ref = keys, ref

    def __getitem__(self, index):
        return _KeyUpdates(self.keys, self.keys._words.at[_word_index(index)])

    def get(self, **options):
        return KeyArray(self.ref.get(**options))

    def set(self, values, **options):
        if not isinstance(values, KeyArray):
            raise TypeError(f"keys.at[...].set takes keys, got {type(values).__name__}")
        return KeyArray(self.ref.set(values._words, **options))


class KeyArray:
    """An array of keys, of any shape; a pytree node over its words, uint32 of shape (*shape, 2).

    >>> import fgrad
    >>> keys = fgrad.random.split(fgrad.random.key(0), 3)
    >>> keys.shape, keys.dtype, keys[0].shape
    ((3,), key<fry>, ())
    """

    __slots__ = ("_words",)
    _stands_for_array = True
    dtype = KEY
    weak_type = False
    itemsize = KEY.itemsize

    def __init__(self, words):
        self._words = words

    @property
    def shape(self):
        return self._words.shape[:-1]

    @property
    def ndim(self):
        return self._words.ndim - 1

    @property
    def size(self):
        return math.prod(self.shape)

    @property
    def T(self):
        return self.transpose()

    def reshape(self, *shape):
        shape = shape[0] if len(shape) == 1 and np.iterable(shape[0]) else shape
        return KeyArray(self._words.reshape(*shape, 2))

    def ravel(self):
        return self.reshape(-1)

    flatten = ravel

    def transpose(self, *axes):
        axes = axes[0] if len(axes) == 1 and np.iterable(axes[0]) else axes or range(self.ndim)[::-1]
        return KeyArray(self._words.transpose(*(range(self.ndim)[a] for a in axes), self.ndim))

    def __getitem__(self, index):
        return KeyArray(self._words[_word_index(index)])

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self):
        if not self.shape:
            raise TypeError("iteration over a key of shape (); split it into an array of keys")
        return (KeyArray(words) for words in self._words)

    def __eq__(self, other):
        if not isinstance(other, KeyArray):
            return NotImplemented
        same = self._words == other._words
        return same if type(same) is bool else jnp.all(same, -1)  # one of them a ShapeDtypeStruct, or words to compare

    def __ne__(self, other):
        same = self == other
        return not same if type(same) is bool else same if same is NotImplemented else jnp.logical_not(same)

    __hash__ = None  # type: ignore[assignment]

    def __array__(self, dtype=None, copy=None):
        raise TypeError("keys (dtype key<fry>) have no NumPy form; random.key_data(keys) gives their uint32 words")

    def block_until_ready(self):
        return self

    def copy(self):
        return self

    def squeeze(self, axis=None):
        return jnp.squeeze(self, axis)

    def swapaxes(self, axis1, axis2):
        return jnp.swapaxes(self, axis1, axis2)

    def repeat(self, repeats, axis=None):
        return jnp.repeat(self, repeats, axis)

    def take(self, indices, axis=None):
        return jnp.take(self, indices, axis)

    @property
    def at(self):
        """keys.at[i].set(other) and keys.at[i].get()."""
        return _KeyUpdates(self)

    @property
    def nbytes(self):
        return self.size * self.itemsize

    @property
    def device(self):
        return self._words.device

    @property
    def sharding(self):
        return self._words.sharding

    def devices(self):
        return self._words.devices()

    is_fully_addressable = is_fully_replicated = True

    @property
    def aval(self):
        return KEY.aval(self.shape)

    def typeof(self):
        """What fgrad.typeof gives."""
        return self.aval

    def __repr__(self):
        if type(self._words) is ShapeDtypeStruct:
            return f"ShapeDtypeStruct(shape={self.shape}, dtype=key<fry>)"
        if type(self._words) is not Array:
            return f"KeyArray(key<fry>[{','.join(map(str, self.shape))}])"
        return f"Array({self.shape}, dtype=key<fry>) overlaying:\n{self._words}"


tree.register_array_node(KeyArray, lambda k: ((k._words,), None), lambda _, children: KeyArray(children[0]))
register_overlay(KeyArray, KeyArray)
install_keys(KeyArray)
_ONE = ShapedArray((2,), dtypes.UINT32)


def _check_impl(impl, dtype=None):
    if dtype is not None and impl is not None:
        raise ValueError("give impl or dtype, not both")
    impl = dtype if impl is None else impl
    if impl not in (None, _IMPL, "fry", KEY, THREEFRY):
        raise ValueError(f"unrecognized PRNG implementation {impl!r}; there is one: {_IMPL!r}")


def _seed_words(name, seed):
    if isinstance(seed, KeyArray):
        raise TypeError(f"{name} accepts a scalar seed, but was given a PRNG key")
    if isinstance(seed, (int, np.integer)):
        if not -(2**63) <= seed < (2**64 if isinstance(seed, np.unsignedinteger) else 2**63):
            raise OverflowError(f"{name}: the seed {seed} does not fit 64 bits; take it modulo 2**63")
        seed = int(seed) + config.random_seed_offset
        if not config.enable_x64:
            return from_numpy(np.array([0, seed % 2**32], np.uint32))
        return from_numpy(np.array([seed % 2**64 >> 32, seed % 2**32], np.uint32))
    seed = as_array(name, seed)
    if seed.shape:
        raise TypeError(f"{name} accepts a scalar seed, but was given an array of shape {seed.shape} != (). Use vmap for batching")
    if not dtypes.is_integer(seed.dtype):
        raise TypeError(f"PRNG key seed must be an integer scalar, got {seed.aval}")
    if config.random_seed_offset:
        seed = seed + config.random_seed_offset
    low = lax.convert_element_type(seed, np.uint32)
    if seed.dtype.itemsize < 8:
        return jnp.stack([jnp.zeros((), np.uint32), low])
    return jnp.stack([lax.convert_element_type(lax.shift_right_logical(seed, lax.like(seed, 32)), np.uint32), low])


def key_dtype(impl_spec=None):
    """The dtype of typed keys. Raises ValueError for an implementation that is not threefry2x32."""
    _check_impl(impl_spec)
    return KEY


def key(seed, *, impl=None, dtype=None):
    """A typed key from an integer seed.

    >>> import fgrad
    >>> fgrad.random.key(7)
    Array((), dtype=key<fry>) overlaying:
    [0 7]
    """
    _check_impl(impl, dtype)
    return KeyArray(_seed_words("key", seed))


def PRNGKey(seed, *, impl=None):
    """A key from an integer seed, as plain words (uint32 of shape (2,)); with the setting jax_enable_custom_prng a typed key."""
    _check_impl(impl)
    words = _seed_words("PRNGKey", seed)
    return KeyArray(words) if config.enable_custom_prng else words


def _words(name, keys):
    """The words of keys of either kind, (..., 2)."""
    if isinstance(keys, KeyArray):
        return keys._words
    words = as_array(name, keys)
    if words.dtype != dtypes.UINT32 or words.ndim < 1 or words.shape[-1] != 2:
        raise TypeError(
            f"{name}: expected a PRNG key (key<fry>, or uint32 of shape (2,)), got {words.aval}; make one with random.key(seed)"
        )
    return words


def one_key(name, key):
    """The words of a single key, (2,)."""
    if type(key) is Array and key.aval is _ONE:
        return key
    words = _words(name, key)
    if words.ndim != 1:
        raise ValueError(
            f"{name} accepts a single key, but was given a key array of shape {words.shape[:-1]} != (). Use vmap for batching."
        )
    return words


def _like(key, words):
    return KeyArray(words) if isinstance(key, KeyArray) else words


def key_data(keys):
    """The uint32 words of keys, (..., 2)."""
    return _words("key_data", keys)


def wrap_key_data(key_bits_array, *, impl=None, dtype=None):
    """uint32 words of shape (..., 2) as typed keys."""
    _check_impl(impl, dtype)
    return KeyArray(_words("wrap_key_data", key_bits_array))


def key_impl(keys):
    """The name of the generator that the keys belong to."""
    _words("key_impl", keys)
    return _IMPL


def default_prng_impl():
    """The name of the generator of new keys."""
    return _IMPL


def clone(key):
    """The same key: a marker for readers that it is used again on purpose."""
    return _like(key, _words("clone", key))


@eager(1, keyed="gives")
def split(key, num=2):
    """num new keys from one; num may be a shape. They are typed if the key is.

    >>> from fgrad import random
    >>> a, b = random.split(random.key(0))
    >>> a.shape, random.split(a, (2, 3)).shape
    ((), (2, 3))
    """
    words = one_key("split", key)
    return _like(key, split_words(words, canonical_shape(num if np.iterable(num) else (num,))))


def fold_in(key, data):
    """A new key from a key and an integer."""
    words = one_key("fold_in", key)
    if type(data) is int and not 0 <= data < 2**32:
        raise OverflowError(f"fold_in: Python integer {data} out of bounds for uint32")
    data = from_scalar(int(data) % 2**32, dtypes.UINT32, False) if isinstance(data, (int, np.integer)) else as_array("fold_in", data)
    if data.shape:
        raise TypeError(f"fold_in accepts a scalar, but was given an array of shape {data.shape} != (). Use vmap for batching.")
    return _like(key, _folded(words, data))


@eager(2)
def _folded(words, data):
    return jnp.stack(threefry2x32(words[0], words[1], jnp.zeros((), np.uint32), lax.convert_element_type(data, np.uint32)))
