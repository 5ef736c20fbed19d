/* What is moved as it is, by size. */
#ifndef FG_ITEM_TYPES_H
#define FG_ITEM_TYPES_H
#include <stdint.h>

typedef uint8_t __attribute__((may_alias)) fg_item1;
typedef uint16_t __attribute__((may_alias)) fg_item2;
typedef uint32_t __attribute__((may_alias)) fg_item4;
typedef uint64_t __attribute__((may_alias, aligned(4))) fg_item8;       /* also complex64, which is aligned to 4 bytes */
typedef struct { fg_item8 lo, hi; } __attribute__((may_alias)) fg_item16;
#endif
