#pragma once
/// The whole library: `#include <tern/tern.hpp>`.

#include "tern/autograd/tape.hpp"
#include "tern/core/version.hpp"
#include "tern/data/augment.hpp"
#include "tern/data/cifar.hpp"
#include "tern/data/csv.hpp"
#include "tern/data/image.hpp"
#include "tern/data/image_folder.hpp"
#include "tern/data/loader.hpp"
#include "tern/data/mnist.hpp"
#include "tern/data/npz.hpp"
#include "tern/data/scaling.hpp"
#include "tern/data/synthetic_digits.hpp"
#include "tern/data/synthetic_images.hpp"
#include "tern/io/checkpoint.hpp"
#include "tern/io/safetensors.hpp"
#include "tern/models/models.hpp"
#include "tern/modes/borrow.hpp"
#include "tern/modes/forced_way.hpp"
#include "tern/nn/classification.hpp"
#include "tern/nn/metrics.hpp"
#include "tern/nn/nn.hpp"
#include "tern/nn/regression.hpp"
#include "tern/operators/operators.hpp"
#include "tern/optim/optim.hpp"
#include "tern/parallel/batch_norm.hpp"
#include "tern/parallel/data_parallel.hpp"
#include "tern/parallel/group.hpp"
#include "tern/parallel/layout.hpp"
#include "tern/parallel/mesh.hpp"
#include "tern/parallel/pipeline.hpp"
#include "tern/parallel/split.hpp"
#include "tern/run/branches.hpp"
#include "tern/run/profile.hpp"
#include "tern/run/step.hpp"
#include "tern/tensor/create.hpp"

namespace tern {
/// Short for programs: `using namespace tern; op::relu(x)`.
namespace op = operators;
}  // namespace tern
