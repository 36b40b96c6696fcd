#include "ops/libraries.hpp"

#include <cblas.h>
#include <fmt/format.h>

#include <dnnl.hpp>
#include <sstream>

namespace dynpipe::ops {
namespace {

std::string name_of(dnnl::cpu_isa isa) {
  switch (isa) {
    case dnnl::cpu_isa::sse41:
      return "SSE4.1";
    case dnnl::cpu_isa::avx:
      return "AVX";
    case dnnl::cpu_isa::avx2:
      return "AVX2";
    case dnnl::cpu_isa::avx2_vnni:
      return "AVX2 with VNNI";
    case dnnl::cpu_isa::avx512_core:
      return "AVX-512";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "AVX-512 with VNNI";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "AVX-512 with bfloat16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "AVX-512 with AMX";
    default:
      return fmt::format("level {}", static_cast<int>(isa));
  }
}

}  // namespace

MathsLibraries maths_libraries() {
  const dnnl_version_t& version = *dnnl::version();
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  std::istringstream config(openblas_get_config());  // "OpenBLAS 0.3.21 NO_AFFINITY ..."
  std::string name;
  std::string number;
  config >> name >> number;
  return {fmt::format("oneDNN {}.{}.{}", version.major, version.minor, version.patch), name_of(isa),
          fmt::format("{} {} ({})", name, number, openblas_get_corename()),
          isa != dnnl::cpu_isa::sse41 && isa != dnnl::cpu_isa::avx};
}

}  // namespace dynpipe::ops
