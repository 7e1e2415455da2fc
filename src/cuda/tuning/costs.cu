#include <mutex>
#include <optional>
#include <vector>

#include "cuda/support.cuh"
#include "cuda/tuning/costs.cuh"
#include "tern/kernels/algorithms.hpp"

namespace tern::cuda::tuning {

namespace {

struct OfCard {
  std::once_flag made;
  Figures figures;
  Costs plain;
};

const OfCard& of_card() {
  static auto& all = *new std::vector<OfCard>(static_cast<std::size_t>(card_count()));
  const Card& used = card();
  OfCard& of = all[static_cast<std::size_t>(used.device)];
  std::call_once(of.made, [&] {
    of.figures = figures_of(used.capability);
    of.figures.multiprocessors = used.multiprocessors;
    of.figures.shared_per_block = used.shared_per_block;
    of.figures.clusters = used.overlap;
    of.figures.clock = used.clock;
    if (!used.doubles) of.figures.doubles = 2;
    of.plain = plain_costs(of.figures);
  });
  return of;
}

}  // namespace

const Figures& figures() { return of_card().figures; }

Rule rule_of(const Context& context) {
  const Rule own = fitted_costs(card().capability) == nullptr ? Rule::plain : Rule::fitted;
  const std::string_view forced = forced_algorithm(context, "cut_rule");
  if (forced.empty()) [[likely]]
    return own;
  return forced == name_of(Rule::plain) ? Rule::plain : own;
}

void took_rule(const Context& context, Rule rule) {
  if (!forced_algorithm(context, "cut_rule").empty()) took_algorithm(context, "cut_rule", name_of(rule));
}

const Costs& costs(Rule rule) {
  const Costs* const fitted = rule == Rule::fitted ? fitted_costs(card().capability) : nullptr;
  return fitted != nullptr ? *fitted : of_card().plain;
}

}  // namespace tern::cuda::tuning
