"""The walk through trees beside optree's own, and what calls of jitted functions tell apart."""

import collections
import dataclasses
import functools

import numpy as np
import optree
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fgrad
import fgrad.numpy as jnp

Pair = collections.namedtuple("Pair", "first second")


class Box:
    """A registered node with data that need not have a hash."""

    def __init__(self, child, data):
        self.child, self.data = child, data


fgrad.tree_util.register_pytree_node(Box, lambda b: ((b.child,), b.data), lambda data, children: Box(children[0], data))

names = st.sampled_from(["a", "b", "c", "long name"])
trees = st.recursive(
    st.one_of(st.integers(), st.floats(allow_nan=False), st.none(), st.text(max_size=2), st.just(np.ones(2))),
    lambda sub: st.one_of(
        st.lists(sub, max_size=3),
        st.lists(sub, max_size=3).map(tuple),
        st.dictionaries(names, sub, max_size=3),
        st.dictionaries(st.integers(0, 3), sub, max_size=2),
        st.dictionaries(names, sub, max_size=2).map(collections.OrderedDict),
        st.tuples(sub, sub).map(lambda p: Pair(*p)),
        st.tuples(sub, st.sampled_from([None, "x", (1, 2), [3], {"no": "hash"}])).map(lambda p: Box(*p)),
    ),
    max_leaves=12,
)
OPTIONS = dict(none_is_leaf=False, namespace="fgrad")


def same(a, b):
    assert len(a) == len(b)
    assert all(x is y for x, y in zip(a, b))


@given(trees)
def test_walk_is_optrees(tree):
    want, spec = optree.tree_flatten(tree, **OPTIONS)
    for _ in range(2):  # the second time the structure is known
        got, treedef = fgrad.tree.flatten(tree)
        same(got, want)
        assert treedef == spec
        same(fgrad.tree.leaves(tree), want)
        assert fgrad.tree.structure(tree) == spec
        mapped = fgrad.tree.map(lambda x, y: (0, x, y), tree, tree)
        plain = optree.tree_map(lambda x, y: (0, x, y), tree, tree, **OPTIONS)
        assert repr(optree.tree_structure(mapped, **OPTIONS)) == repr(optree.tree_structure(plain, **OPTIONS))
        same([x for leaf in optree.tree_leaves(mapped, is_leaf=lambda x: type(x) is tuple and x[:1] == (0,), **OPTIONS) for x in leaf[1:]],
             [x for leaf in want for x in (leaf, leaf)])  # fmt: skip


@given(trees, trees)
def test_two_structures_are_one_where_optree_says_so(a, b):
    assert (fgrad.tree.structure(a) == fgrad.tree.structure(b)) == (
        optree.tree_structure(a, **OPTIONS) == optree.tree_structure(b, **OPTIONS)
    )


def test_dictionaries_are_made_in_ascending_order():
    counts = collections.defaultdict(int, z=1, y=2)
    inner = {3: {"b": 1, "a": 2}, 1: counts}
    for tree in ({"d": 1, "c": 2}, {"c": 1, "d": 2}, {"d": inner, "c": 0}, Box({"d": 1, "c": 2}, 5)):
        for out in (
            fgrad.tree.map(lambda x: x, tree),
            fgrad.tree.map(lambda x: x, tree, is_leaf=lambda x: False),
            fgrad.tree.unflatten(fgrad.tree.structure(tree), fgrad.tree.leaves(tree)),
            fgrad.tree.map_with_path(lambda _, x: x, tree),
        ):
            names = out.child if isinstance(tree, Box) else out
            assert list(names) == ["c", "d"]
            assert fgrad.tree.structure(out) == fgrad.tree.structure(tree)
            assert fgrad.tree.leaves(out) == fgrad.tree.leaves(tree)
            if names["d"] is not None and isinstance(names["d"], dict):
                assert list(names["d"]) == [1, 3] and list(names["d"][3]) == ["a", "b"]
                assert (
                    type(names["d"][1]) is collections.defaultdict
                    and names["d"][1].default_factory is int
                    and list(names["d"][1]) == ["y", "z"]
                )
    assert list(fgrad.tree.map(lambda x: x, collections.OrderedDict(b=1, a=2))) == ["b", "a"]
    assert fgrad.tree.map(lambda x, y: x - y, {"b": 1, "a": 2}, {"a": 20, "b": 10}) == {"a": -18, "b": -9}


def test_transformations_return_dictionaries_in_ascending_order():
    x = {"b": jnp.float32(1), "a": jnp.float32(2)}
    results = (
        fgrad.jit(lambda d: d)(x),
        fgrad.grad(lambda d: d["a"] * d["b"])(x),
        fgrad.vmap(lambda v: {"b": v, "a": v})(jnp.arange(2)),
        fgrad.lax.scan(lambda c, _: (c, None), x, None, length=2)[0],
        fgrad.lax.while_loop(lambda c: c["a"] < 5, lambda c: {"b": c["b"], "a": c["a"] + 1}, x),
        fgrad.lax.cond(True, lambda d: d, lambda d: d, x),
        fgrad.eval_shape(lambda d: d, x),
    )
    assert [list(r) for r in results] == [["a", "b"]] * len(results)


def test_data_that_are_equal_stay_their_own():
    for data in (1, True, 1.0):
        assert type(fgrad.tree.map(lambda x: x, Box(0, data)).data) is type(data)


def test_structures_that_differ_raise():
    with pytest.raises(ValueError):
        fgrad.tree.map(lambda x, y: x, {"a": 1}, {"b": 1})
    with pytest.raises(ValueError):
        fgrad.tree.map(lambda x, y: x, [1, 2], [1])
    assert fgrad.tree.map(lambda x, y: y, [1, 2], [[3], 4]) == [[3], 4]  # the first is a prefix of the others


def test_a_leaf_may_become_a_node():
    class Late:
        def __init__(self, x):
            self.x = x

    late = Late(3)
    assert fgrad.tree.leaves([late]) == [late]
    fgrad.tree_util.register_pytree_node(Late, lambda n: ((n.x,), None), lambda _, c: Late(*c))
    assert fgrad.tree.leaves([late]) == [3]


def test_deep_trees():
    tree = 1
    for _ in range(200):
        tree = [tree]
    assert fgrad.tree.leaves(tree) == [1]
    assert fgrad.tree.structure(tree).num_leaves == 1


def test_calls_tell_structures_apart():
    seen = []

    @fgrad.jit
    def f(tree):
        seen.append(1)
        return fgrad.tree.map(lambda x: x + 1, tree)

    x = jnp.ones(2)
    for tree in ([x, x], (x, x), Pair(x, x), {"a": x, "b": x}, {"a": x, "c": x}, [x, [x]], Box(x, 1), Box(x, 2), Box([x], 1), Box(x, None)):
        before = len(seen)
        for _ in range(3):
            out = f(tree)
        assert len(seen) == before + 1, tree
        assert fgrad.tree.structure(out) == fgrad.tree.structure(tree)
        assert all(float(v[0]) == 2 for v in fgrad.tree.leaves(out))


def test_static_names():
    seen = []

    @functools.partial(fgrad.jit, static_argnames=("n", "mode"))
    def f(x, *, n, mode="a", scale=1.0):
        seen.append((n, mode))
        return x * n * scale

    x = jnp.ones(2)
    for _ in range(3):
        assert float(f(x, n=2)[0]) == 2
        assert float(f(x, n=2.5)[0]) == 2.5
        assert float(f(x, scale=3.0, n=2)[0]) == 6
        assert float(f(x, n=2, scale=3.0)[0]) == 6
        assert float(f(x, n=2, mode="b")[0]) == 2
        assert float(f(x, mode="b", n=2)[0]) == 2
    assert seen == [(2, "a"), (2.5, "a"), (2, "a"), (2, "b")]
    with pytest.raises(ValueError, match="Non-hashable"):
        f(x, n=[1])


def test_numpys_scalars_are_arguments():
    f = fgrad.jit(lambda x, s: x * s)
    for s in (np.float32(2), np.float64(2), np.int32(2), np.uint8(2), np.bool_(True), np.float16(2)):
        for _ in range(2):
            got = f(np.ones(3, np.float32), s)
            assert got.dtype == (jnp.ones(3) * jnp.asarray(s)).dtype
            np.testing.assert_array_equal(got, np.ones(3) * float(s))


def test_transpose_of_trees_without_leaves_and_fields_given_twice():
    tree = fgrad.tree
    assert tree.transpose(tree.structure([0, 0]), tree.structure({}), [{}, {}]) == {}
    pair, inner = tree.structure((0, [0])), tree.structure({"a": 0, "b": (0, None)})
    given = ({"a": 1, "b": (2, None)}, [{"b": (4, None), "a": 3}])
    assert tree.transpose(pair, inner, given) == {"a": (1, [3]), "b": ((2, [4]), None)}
    with pytest.raises((TypeError, ValueError)):
        tree.transpose(pair, inner, given[0])
    with pytest.raises(ValueError, match="overlap"):
        fgrad.tree_util.register_dataclass(dataclasses.make_dataclass("D", ["x", "y"]), ["x"], ["x", "y"])


def test_key_paths_are_those_of_the_tree():
    """Those that are kept for a structure are no others, also where keys are equal and no strings."""

    class Name(str):
        pass

    def of(tree):
        return [p for p, _ in fgrad.tree.leaves_with_path(tree)]

    for _ in range(2):
        for tree, keys in (({1: 0}, [1]), ({True: 0}, [True]), ({"a": 0, "b": 1}, ["a", "b"]), ({"b": 0, "a": 1}, ["a", "b"])):
            assert [repr(k.key) for (k,) in of(tree)] == list(map(repr, keys))
        assert type(of({"a": 0})[0][0].key) is str and type(of({Name("a"): 0})[0][0].key) is Name
        assert of([0, 1]) != of({"a": 0, "b": 1}) and of((0, (1, None))) == of([0, [1]])
    assert type(next(iter(fgrad.tree.map(abs, {Name("a"): 0})))) is Name
    paths = of([0, 1])
    paths.clear()
    assert len(of([0, 1])) == 2
    out = fgrad.tree.map_with_path(lambda p, x, y: (len(p), x, y), {"a": [1, 2], "b": 3}, {"a": [4, 5], "b": {"c": 6}})
    assert out == {"a": [(2, 1, 4), (2, 2, 5)], "b": (1, 3, {"c": 6})}


def test_trees_are_made_again_of_their_leaves():
    """By treedefs that are known, by equal ones that are not, and by map, however deep and whatever the order of the names."""
    deep = functools.reduce(lambda t, _: [t], range(200), 1)
    for tree in ({"b": 1, "a": (None, [2, {}, ()])}, Pair({"c": 3}, [Pair(1, None)]), 4, None, (), {"z": {1: 2}}, Box([1, 2], [3]), deep):
        for _ in range(2):
            leaves, treedef = fgrad.tree.flatten(tree)
            for again in (treedef, optree.tree_structure(tree, namespace="fgrad")):
                out, mapped = fgrad.tree.unflatten(again, iter(leaves)), fgrad.tree.map(lambda x: x, tree)
                assert fgrad.tree.structure(out) == fgrad.tree.structure(mapped) == treedef and type(out) is type(tree) is type(mapped)
                assert fgrad.tree.leaves(out) == fgrad.tree.leaves(mapped) == leaves
            for wrong in (leaves + [0], leaves[1:]) if leaves else ([0],):
                with pytest.raises(ValueError, match="leaves"):
                    fgrad.tree.unflatten(treedef, wrong)
    treedef = fgrad.tree.structure({"b": 1, "a": (2, 3)})
    out = fgrad.tree.unflatten(treedef, [None, [0], 2])
    assert out == {"a": (None, [0]), "b": 2} and list(out) == ["a", "b"]
    assert list(fgrad.tree.map(lambda x, y: x + y, {"b": 1, "a": 2}, {"a": 3, "b": 4}).items()) == [("a", 5), ("b", 5)]


def test_leaves_may_come_from_code_that_makes_other_trees():
    xs, treedef = fgrad.tree.flatten({"a": (1, 2), "b": [3]})

    def leaves():
        for n in range(1500):  # more structures than are remembered
            fgrad.tree.structure([0] * n)
        yield from xs

    assert fgrad.tree.unflatten(treedef, leaves()) == {"a": (1, 2), "b": [3]}
