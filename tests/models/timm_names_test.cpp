// Weights under timm's names: every one finds its place. timm 1.0 gave the lists below.

#include "tern/models/timm_names.hpp"

#include <algorithm>

#include "support/catch.hpp"
#include "tern/tern.hpp"

namespace {

using namespace tern;

/// The state of a network under other names: those that `rename` takes back.
nn::State under_other_names(const nn::Module& net, const std::vector<nn::Rename>& rename) {
  nn::State state;
  for (const auto& entry : net.state()) {
    const std::string& name = entry.first;
    const auto found = std::ranges::find_if(rename, [&](const nn::Rename& each) { return name.starts_with(each.to); });
    REQUIRE(found != rename.end());
    state.emplace(found->from + name.substr(found->to.size()), entry.second.clone());
  }
  return state;
}

void check_taken(nn::Module& fresh, const nn::Module& net, const std::vector<nn::Rename>& rename,
                 const std::vector<std::string>& names) {
  const nn::State state = under_other_names(net, rename);
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK(state.contains(name));
  }
  const nn::LoadReport report = nn::load(fresh, state, {.rename = rename});
  CHECK(report.whole());
  const nn::State here = fresh.state();
  for (const auto& [name, tensor] : net.state()) CHECK(here.at(name).values() == tensor.values());
}

TEST_CASE("names: weights of timm's vision transformers", "[models]") {
  const models::VisionTransformerOptions options{
      .classes = 5, .image_size = 16, .patch = 8, .width = 16, .layers = 2, .heads = 2, .hidden = 32};
  const models::VisionTransformer net(options, 1);
  models::VisionTransformer fresh(options, 2);
  check_taken(fresh, net, models::timm_vision_transformer_names(2),
              {"cls_token", "pos_embed", "patch_embed.proj.weight", "blocks.0.norm1.weight", "blocks.1.attn.qkv.weight",
               "blocks.0.attn.qkv.bias", "blocks.0.attn.proj.weight", "blocks.1.norm2.bias", "blocks.1.mlp.fc1.weight",
               "blocks.0.mlp.fc2.bias", "norm.weight", "head.weight", "head.bias"});
}

TEST_CASE("names: weights of timm's MobileNetV2", "[models]") {
  const models::MobileNetV2Options options{.classes = 5, .image_size = 32, .width_divisor = 8};
  const models::MobileNetV2 net(options, 1);
  models::MobileNetV2 fresh(options, 2);
  check_taken(fresh, net, models::timm_mobilenet_v2_names(),
              {"conv_stem.weight", "bn1.running_mean", "blocks.0.0.conv_dw.weight", "blocks.0.0.bn1.weight",
               "blocks.0.0.conv_pw.weight", "blocks.0.0.bn2.bias", "blocks.1.0.conv_pw.weight",
               "blocks.2.2.conv_dw.weight", "blocks.5.2.conv_pwl.weight", "blocks.6.0.bn3.running_var",
               "conv_head.weight", "bn2.weight", "classifier.weight"});
}

}  // namespace
