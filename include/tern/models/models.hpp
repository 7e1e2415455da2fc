#pragma once

#include "tern/models/alexnet.hpp"
#include "tern/models/googlenet.hpp"
#include "tern/models/lenet.hpp"
#include "tern/models/mlp.hpp"
#include "tern/models/mobilenetv2.hpp"
#include "tern/models/resnet18.hpp"
#include "tern/models/resnet50.hpp"
#include "tern/models/unet.hpp"
#include "tern/models/vgg16.hpp"
#include "tern/models/vision_transformer.hpp"
