#pragma once

#include <string>

namespace dynpipe::ops {

/// The libraries that do the maths, as they say themselves.
struct MathsLibraries {
  std::string onednn;   ///< "oneDNN 2.6.3"
  std::string isa;      ///< the vector instructions that it uses here: "AVX2"
  std::string blas;     ///< "OpenBLAS 0.3.21 (Zen)"
  bool has_fma = true;  ///< AVX2 or better: without it products take several times as long
};
MathsLibraries maths_libraries();

}  // namespace dynpipe::ops
