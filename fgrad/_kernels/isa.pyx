"""What instruction sets this processor runs.  Built for the oldest of them: it is loaded before one is chosen."""

cdef extern from *:
    """
    #if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    static int fg_x86_64_level(void) {
        __builtin_cpu_init();
        if (!(__builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt"))) return 1;
        if (!(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
              __builtin_cpu_supports("bmi2"))) return 2;
        if (!(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))) return 3;
        return 4;
    }
    #else
    static int fg_x86_64_level(void) { return 0; }
    #endif
    """
    int fg_x86_64_level() nogil


def supported():
    """Names of x86-64 levels (psABI) that this processor runs, best first; empty on other machines."""
    return tuple(f"x86-64-v{level}" for level in range(fg_x86_64_level(), 0, -1))
