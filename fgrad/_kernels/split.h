/* How a thread's loops are split over the team: by what kernels estimate, not at all, or in finer ranges, which a trial decides (pace.h). */
#ifndef FG_SPLIT_H
#define FG_SPLIT_H
enum { FG_SPLIT_USUAL, FG_SPLIT_NEVER, FG_SPLIT_FINELY, FG_SPLITS };
#define FG_FINE 4                              /* ranges of a fine split to one of the usual */
#endif
