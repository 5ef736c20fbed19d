/* Include a kernel header for float and for double: define ROWS as its name first. */
#include "row_math.h"
#include "row_check.h"
#include "narrow.h"
#include "copy_rows.h"

#define T float
#define N(name) name##_f32
#include "row_vec.h"
#include "row_reduce.h"
#include "row_columns.h"
#include ROWS
#undef T
#undef N

#define T double
#define N(name) name##_f64
#include "row_vec.h"
#include "row_reduce.h"
#include "row_columns.h"
#include ROWS
#undef T
#undef N
#undef ROWS
