#pragma once

#include <span>

namespace dynpipe::planner {

/// Seconds a microbatch of an asynchronous pipeline of single ranks, once it is full: the largest
/// of (sum of T over stages i..j + 2 sum of C between them) / (W_i - W_j + 1) over i <= j, T a
/// stage's forward and backward, C a link's one-way time. Each term is a closed chain of steps that
/// wait for one another: stage i's forward of microbatch k, the forwards of k down to j, j's next
/// backward, which is W_j microbatches behind, the backwards up to i, whose next forward is that of
/// microbatch k + W_i - W_j + 1. Longer chains are made of these.
///
/// Exact where messages of a link do not share it (each takes C, however many), all microbatches
/// take the same, transfers go on while ranks compute, updates take nothing, and no C is more than
/// the period. (Receives are posted at least a microbatch ahead of their use. A chain that goes
/// through such a post is one of these with C more, for one microbatch more: it is no longer per
/// microbatch unless C is more than the period is anyway.) A link that does share its rate sets
/// another bound: the time of its bytes. M makes no difference.
///
/// `stage_s`: T_s, S of them; `link_s`: C between stages s and s + 1, S - 1 of them; `warmups`:
/// W_s, falling or level, S of them. O(S^2). Throws std::logic_error for other lengths.
double cycle_period_s(std::span<const double> stage_s, std::span<const double> link_s,
                      std::span<const int> warmups);

}  // namespace dynpipe::planner
