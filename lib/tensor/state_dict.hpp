#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/shape.hpp"

namespace dynpipe::tensor {

/// A tensor on the host, in logical (plain) order, in the widest type: exact for float32 and
/// float64.
struct HostTensor {
  base::Shape shape;
  std::vector<double> values;
};

/// Tensors by full name, "conv1.weight". What moves between stages, files and tests.
using StateDict = std::map<std::string, HostTensor, std::less<>>;

}  // namespace dynpipe::tensor
