from fgrad._kernels.array cimport ArrayBase

cpdef ArrayBase selected(x, mask)
cpdef with_number(x, mask, value)
