"""PyTorch's versions of the survey's cases, as far as it has the functions: {case: function of the tensors}."""

from benchmarks.survey_cases import CASES, CONVOLUTIONS, SHAPES


def _grad(torch, f):
    """The gradient by the first tensor of the sum of f's results."""

    def g(x, *rest):
        x = x.detach().requires_grad_()
        y = f(x, *rest)
        return torch.autograd.grad(sum(t.sum() for t in (y if isinstance(y, (tuple, list)) else (y,))), x)[0]

    return g


def _elementwise(t):
    plain = "sin cos tan sinh cosh tanh exp exp2 expm1 log log2 log10 log1p sqrt square abs sign floor ceil trunc reciprocal sinc deg2rad"
    table = {f"np.{n}": getattr(t, n) for n in plain.split() + "isnan isfinite i0 nan_to_num".split()}
    renamed = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "rint": "round"}
    binary = "multiply subtract divide maximum minimum arctan2 hypot logaddexp fmod remainder floor_divide greater copysign heaviside"
    renamed |= {n: n for n in binary.split()} | {"add": "add", "power": "pow", "equal": "eq", "nextafter": "nextafter", "ldexp": "ldexp"}
    table |= {f"np.{n}": getattr(t, theirs) for n, theirs in renamed.items()}
    table |= {f"np.{n} of huge numbers": getattr(t, n) for n in ("sin", "tan")}
    table |= {f"x ** {p}": lambda x, p=p: x**p for p in (3, 2.5, -0.5)}
    return table | {
        "np.where": lambda x, y: t.where(x > 0, x, y),
        "np.clip": lambda x: t.clamp(x, -1, 1),
        "integer arithmetic": lambda a, b: (a * 3 + b) // 7 % 5,
        "bytes by a number": lambda a: a.to(t.uint8) // 3,
        "bitwise": lambda a, b: (a ^ b) & (a << 2) | (b >> 1),
        "complex product and modulus": lambda a: t.abs(a * a.conj() + 1j),
        "float32 to bfloat16": lambda x: x.to(t.bfloat16),
        "float32 to int32": lambda x: x.to(t.int32),
        "five-point stencil": lambda x: x[1:-1, 1:-1] * -4 + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:],
        "stencil by roll": lambda x: sum(t.roll(x, s, a) for s in (1, -1) for a in (0, 1)) - 4 * x,
        "magnitude of gradients": lambda x: t.sqrt(sum(g * g for g in t.gradient(x))),
        "outer products of rows": lambda x, y: t.einsum("bi,bj->bij", x, y),
        "a step of Viterbi's algorithm": lambda a, b, e: (a[:, :, None] + b).amax(1) + e,
        "rows scaled and shifted": lambda x, w, b: x * w + b,
        "cross product": lambda x, y: t.linalg.cross(x, y),
        "gelu in bfloat16": lambda x: t.nn.functional.gelu(x.to(t.bfloat16), approximate="tanh"),
    }


def _networks(t):
    f, table = t.nn.functional, {}

    def both(name, function):
        table[name], table[f"grad of {name}"] = function, _grad(t, function)

    names = {n: n for n in "relu relu6 sigmoid softplus silu leaky_relu elu celu selu mish glu".split()}
    names |= {"log_sigmoid": "logsigmoid", "hard_tanh": "hardtanh", "hard_swish": "hardswish", "hard_sigmoid": "hardsigmoid"}
    for n, theirs in (names | {"soft_sign": "softsign"}).items():
        both(f"nn.{n}", getattr(f, theirs))
    both("nn.gelu", lambda x: f.gelu(x, approximate="tanh"))
    both("nn.gelu, exact", f.gelu)
    for n in ("softmax", "log_softmax", "logsumexp"):
        function = getattr(t, n)
        for shape, axis in SHAPES[:2] + SHAPES[3:5]:
            both(f"cubes of nn.{n} {shape} axis {axis}", lambda x, g=function, a=axis: g(x, a) ** 3)
        both(f"cubes of nn.{n} down 8 columns", lambda x, g=function: g(x, 0) ** 3)
    both("mean pooling by reshape", lambda x: x.reshape(8, 28, 2, 28, 2, 64).mean((2, 4)))
    both("mean pooling by reshape, features first", lambda x: f.avg_pool2d(x, 2))
    resize = lambda x: f.interpolate(x.permute(0, 3, 1, 2), scale_factor=2, mode="bilinear").permute(0, 2, 3, 1)  # noqa: E731
    both("image.resize twice as large", resize)
    turned = lambda x: x.transpose(1, 2)  # noqa: E731
    both("attention written out", lambda q, k, v: turned(f.scaled_dot_product_attention(turned(q), turned(k), turned(v))))
    both("layer norm written out", lambda x, w, b: f.layer_norm(x, x.shape[1:], w, b))
    table["softmax in bfloat16"] = lambda x: t.softmax(x.to(t.bfloat16), -1)
    both("max pooling 3x3 by 2", lambda x: f.max_pool2d(x, 3, 2, 1))
    both("max pooling 2x2", lambda x: f.max_pool2d(x, 2))
    return table


def _special(t):
    s = t.special
    names = "erf erfc gammaln digamma ndtr log_ndtr i0 i0e i1 i1e expit entr erfinv ndtri logit xlogy xlog1py gammainc gammaincc"
    table = {f"special.{n}": getattr(s, n) for n in names.split()}
    return table | {"special.zeta": lambda x, q: s.zeta(x + 1.5, q), "special.multigammaln": lambda x: s.multigammaln(x + 1, 2)}


def _reductions(t):
    spread = {n: lambda x, a, n=n: getattr(t, n)(x, a, correction=0) for n in ("var", "std")}
    plain = {n: getattr(t, n) for n in "sum mean prod any all argmax argmin cumsum cumprod argsort nansum nanmean count_nonzero".split()}
    ends = {"max": t.amax, "min": t.amin, "ptp": lambda x, a: t.amax(x, a) - t.amin(x, a)}
    table, functions = {}, spread | plain | ends | {"sort": lambda x, a: t.sort(x, a)[0], "flip": lambda x, a: t.flip(x, (a,))}
    for n, f in functions.items():
        for shape, axis in SHAPES:
            table[f"np.{n} {shape} axis {axis}"] = lambda x, f=f, a=axis: f(x, a)
            table[f"grad of squares of np.{n} {shape} axis {axis}"] = _grad(t, lambda x, f=f, a=axis: f(x, a) ** 2)
    for shape, axis in SHAPES[:2] + SHAPES[3:4]:
        norm = lambda x, a=axis: t.linalg.vector_norm(x, dim=a)  # noqa: E731
        table |= {f"np.linalg.norm {shape} axis {axis}": norm, f"grad of np.linalg.norm {shape} axis {axis}": _grad(t, norm)}
    return table | {
        "np.percentile": lambda x: t.quantile(x, 0.3),
        "lax.top_k": lambda x: t.topk(x, 5),
        "np.sort of 65536": lambda x: t.sort(x)[0],
        "np.sort of 131072": lambda x: t.sort(x)[0],
        "np.cumsum in bfloat16": lambda x: t.cumsum(x.to(t.bfloat16), 1),
        "np.sum in bfloat16": lambda x: x.to(t.bfloat16).sum(0),
        "lax.associative_scan": lambda x: t.cumsum(x, 0),
    }


def _movement(t):
    f = t.nn.functional

    def update(x, u):
        x = x.clone()
        x[7:507, 7:507] = u
        return x

    return {
        "np.transpose 2-d": lambda x: x.permute(1, 0).contiguous(),
        "np.transpose 021": lambda x: x.permute(0, 2, 1).contiguous(),
        "np.transpose 210": lambda x: x.permute(2, 1, 0).contiguous(),
        "np.transpose 0213": lambda x: x.permute(0, 2, 1, 3).contiguous(),
        "pixel shuffle": lambda x: x.permute(0, 1, 4, 2, 5, 3).reshape(1, 128, 128, 64),
        "np.roll rows": lambda x: t.roll(x, 3, 0),
        "np.roll columns": lambda x: t.roll(x, 3, 1),
        "np.pad": lambda x: f.pad(x, (3, 4, 1, 2)),
        "np.pad reflect": lambda x: f.pad(x[None, None], (2, 2, 2, 2), mode="reflect")[0, 0],
        "np.concatenate axis 0": lambda x, y: t.cat([x, y], 0),
        "np.concatenate axis 1": lambda x, y: t.cat([x, y], 1),
        "np.stack axis -1": lambda x, y: t.stack([x, y], -1),
        "np.tile": lambda x: t.tile(x, (2, 2)),
        "np.repeat": lambda x: t.repeat_interleave(x, 3, 1),
        "np.tril": t.tril,
        "np.diff": t.diff,
        "np.outer": t.outer,
        "np.kron": t.kron,
        "np.vander": lambda x: t.vander(x, 10),
        "np.meshgrid": lambda x: sum(t.meshgrid(x, x, indexing="xy")),
        "np.eye": lambda x: t.eye(1000) * x,
        "x[::2, ::3]": lambda x: x[::2, ::3] * 1,
        "x[::-1, ::-1]": lambda x: t.flip(x, (0, 1)),
        "dynamic_slice": lambda x: x[7:507, 7:507].clone(),
        "dynamic_update_slice": update,
    }


def _indexing(t):
    grid = lambda image, y, x: t.nn.functional.grid_sample(  # noqa: E731
        image[None, None], t.stack([x, y], -1)[None] * (2 / 511) - 1, align_corners=True
    )[0, 0]
    columns = lambda x, i, u: x.index_add(1, i, u)  # noqa: E731
    return {
        "x[i] rows": lambda x, i: x[i],
        "np.take columns": lambda x, i: t.index_select(x, 1, i),
        "x[i, j]": lambda x, i, j: x[i, j],
        "x[i, j] of a million": lambda x, i, j: x[i, j],
        "x[i] of a small table": lambda x, i: x[i],
        "bilinear sampling": grid,
        "bilinear sampling of 10,000 points": grid,
        "np.take_along_axis 1": lambda x, i: t.take_along_dim(x, i.long(), 1),
        "np.take_along_axis 0": lambda x, i: t.take_along_dim(x, i.long(), 0),
        "x.at[i].set rows": lambda x, i, u: x.index_copy(0, i.long(), u),
        "x.at[i].add rows": lambda x, i, u: x.index_add(0, i, u),
        "x.at[i].add": lambda x, i, u: x.index_add(0, i, u),
        "x.at[i].max": lambda x, i, u: x.scatter_reduce(0, i.long(), u, "amax"),
        "x.at[:, i].add": columns,
        "segment sum": lambda u, i: t.zeros((100, 8)).index_add(0, i, u),
        "np.searchsorted": t.searchsorted,
        "np.histogram": lambda x: t.histc(x, 50),
        "np.bincount": lambda i: t.bincount(i, minlength=100),
        "np.digitize": lambda x, b: t.bucketize(x, b, right=True),
        "np.unique": lambda x: t.unique(x),
        "np.nonzero": lambda x: t.nonzero_static(x > 0, size=50_000)[:, 0],
    }


def _products(t):
    table = {f"matmul {d} 1000": lambda x, y, d=d: x.to(getattr(t, d)) @ y.to(getattr(t, d)) for d in ("float32", "bfloat16", "float16")}
    for spec in "bij,bjk->bik bqhd,bkhd->bhqk ijk,ijk->ij i,ij->j bi,ijk->bjk bmk,bk->bm bkm,bk->bm".split():
        product = lambda x, y, s=spec: t.einsum(s, x, y)  # noqa: E731
        table |= {f"einsum {spec}": product, f"grad of einsum {spec}": _grad(t, product)}
    half = lambda x, y: x.to(t.bfloat16) @ y.to(t.bfloat16)  # noqa: E731
    names = "int32 300|complex64 300|10|1000 of 4|int32 2000 of 21x8 by 8x2|int32 18000 rows by 3"
    return (
        table
        | {f"matmul {n}": lambda x, y: x @ y for n in names.split("|")}
        | {
            "matmul bfloat16 20000 of 4": half,
            "matmul bfloat16 98304x8 by 8x8": half,
            "matrix by vector": lambda x, y: x @ y,
            "vector by matrix": lambda x, y: y @ x,
            "np.vdot": t.vdot,
            "np.tensordot": lambda x, y: t.tensordot(x, y, 2),
            "einsum bkm,bk->bm complex64": lambda x, y: t.einsum("bkm,bk->bm", x, y),
            "np.convolve": lambda x, y: t.nn.functional.conv1d(x[None, None], y.flip(0)[None, None], padding=len(y) - 1)[0, 0],
            "np.cov": t.cov,
            "np.cov of columns": lambda x: t.cov(x.T),
            "np.cov of x.T": lambda x: t.cov(x.T),
            "np.max of x.T by rows": lambda x: t.amax(x.T, 1),
            "np.var of x.T by rows": lambda x: t.var(x.T, 1, correction=0),
            "np.corrcoef": t.corrcoef,
            "einsum ii->": t.trace,
            "np.trace": t.trace,
        }
    )


def _linear_algebra(t):
    la, table = t.linalg, {}
    names = "cholesky inv det slogdet eigvalsh pinv eigh svd qr".split()
    table = {f"linalg.{n} 200": getattr(la, n) for n in names}
    for n in ("cholesky", "inv", "det", "slogdet"):
        table |= {f"linalg.{n} 1000 of 8": getattr(la, n), f"grad of linalg.{n} 200": _grad(t, lambda x, n=n: getattr(la, n)(x * 0.5))}
    table |= {f"fft.{n} {shape}": getattr(t.fft, n) for n, shape in (("fft", (1000, 1024)), ("rfft", (1000, 1024)), ("fft", (64,)))}
    table |= {f"fft.{n} {(10, 256, 256)}": getattr(t.fft, n) for n in ("fft2", "rfft2")}
    return table | {
        "linalg.eigh 1000 of 3": la.eigh,
        "linalg.eigvalsh 1000 of 8": la.eigvalsh,
        "singular values 1000 of 8": la.svdvals,
        "linalg.solve 200": la.solve,
        "grad of linalg.solve 200": _grad(t, la.solve),
        "linalg.solve 1000 of 8": la.solve,
        "linalg.lstsq": lambda a, b: la.lstsq(a, b[:, None])[0][:, 0],
        "linalg.matrix_power": lambda x: la.matrix_power(x, 5),
        "linalg.solve_triangular": lambda a, b: la.solve_triangular(a, b, upper=False),
        "linalg.expm": la.matrix_exp,
        "fft.rfft of 2 ** 20": t.fft.rfft,
        "grad of power of fft.rfft": _grad(t, lambda x: t.abs(t.fft.rfft(x)) ** 2),
        "singular vectors of 600": lambda a: la.svd(a)[1],
    }


def _random(t):
    count, small = 1_000_000, 10_000
    d = t.distributions
    draws = {
        "uniform": lambda: t.rand(count),
        "normal": lambda: t.randn(count),
        "randint": lambda: t.randint(10, (count,), dtype=t.int32),
        "bernoulli": lambda: t.empty(count, dtype=t.bool).bernoulli_(0.3),
        "exponential": lambda: t.empty(count).exponential_(),
        "cauchy": lambda: t.empty(count).cauchy_(),
        "truncated_normal": lambda: t.nn.init.trunc_normal_(t.empty(count), a=-1, b=1),
        "gamma": lambda: t._standard_gamma(t.full((small,), 2.0)),
        "beta": lambda: d.Beta(t.full((small,), 2.0), t.full((small,), 3.0), validate_args=False).sample(),
        "poisson": lambda: t.poisson(t.full((small,), 3.0)),
        "binomial": lambda: t.binomial(t.full((small,), 10.0), t.full((small,), 0.3)),
        "categorical": lambda: t.multinomial(t.ones(1000, 100), 1),
        "permutation": lambda: t.randperm(100_000),
        "choice": lambda: t.randint(1000, (small,)),
    }
    return {f"random.{n}": lambda key, f=f: f() for n, f in draws.items()}


def _programs(t):
    table = {}

    def both(name, function):
        table[name], table[f"grad of {name}"] = function, _grad(t, function)

    distances = lambda x: ((x[:, None] - x[None]) ** 2).sum(-1)  # noqa: E731
    both("pairwise distances", lambda x: t.sqrt(distances(x) + 1e-6))
    both("squared-exponential kernel", lambda x: t.exp(-distances(x)))
    table["grad of n-body energy"] = _grad(t, lambda x: 1 / t.sqrt(distances(x) + 0.1))
    return table


def _convolutions(t):
    f, table = t.nn.functional, {}
    for name, c in CONVOLUTIONS.items():
        if c.transposed:
            function = lambda x, w, c=c: getattr(f, f"conv_transpose{w.ndim - 2}d")(x, w, None, c.stride, c.padding)  # noqa: E731
        else:
            function = lambda x, w, c=c: getattr(f, f"conv{w.ndim - 2}d")(x, w, None, c.stride, c.padding, c.dilation, c.groups)  # noqa: E731
        table[name] = function
        table[f"image gradient of {name}"] = lambda x, w, g, f=function: _pulled(t, lambda x: f(x, w), x, g)
        table[f"kernel gradient of {name}"] = lambda x, w, g, f=function: _pulled(t, lambda w: f(x, w), w, g)
    return table


def _pulled(t, f, x, cotangent):
    x = x.detach().requires_grad_()
    return t.autograd.grad(f(x), x, cotangent)[0]


def torch_versions(t):
    """{case: PyTorch's function of the same inputs as tensors}."""
    groups = (
        _elementwise,
        _networks,
        _convolutions,
        _special,
        _reductions,
        _movement,
        _indexing,
        _products,
        _linear_algebra,
        _random,
        _programs,
    )
    return {name: f for group in groups for name, f in group(t).items() if name in CASES}
