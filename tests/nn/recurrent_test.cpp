// Recurrent layers beside numbers from torch 2.15 in float64: two layers, both directions, sequences of 5 and 3 steps.

#include "tern/nn/recurrent.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "tern/tern.hpp"

using namespace tern;

namespace {

using Values = std::vector<double>;

Tensor numbers(const Shape& shape, std::int64_t seed) {
  Values values;
  for (std::int64_t i = 0; i < element_count(shape); ++i)
    values.push_back(static_cast<double>((i * 37 + seed * 13) % 101) / 101.0 - 0.5);
  return tensor(values, shape);
}

void set_parameters(const nn::Module& module) {
  const NoGrad no_grad;
  std::int64_t seed = 0;
  for (const auto& [name, parameter] : module.named_parameters())
    Tensor(parameter).copy_(numbers(parameter.shape(), seed++));
}

void check_golden_values(const Tensor& got, const Values& wanted) {
  const Values values = got.contiguous().values();
  REQUIRE(values.size() == wanted.size());
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(std::abs(values[i] - wanted[i]) <= 1e-12);
}

double weighed(const Tensor& x, std::int64_t seed) { return op::sum(x * numbers(x.shape(), seed)).item(); }

struct Golden {
  Values first, last, short_last;  // the outputs [0][0], [4][0] and [2][1]
  double outputs, hidden, cell;    // weighed sums
  Values x_gradient;               // its first elements
  Values gradients;                // a weighed sum for each parameter
};

void check_golden(const nn::Recurrent& layer, const Golden& golden) {
  INFO(layer.describe());
  set_parameters(layer);
  Tensor x = numbers({5, 2, 3}, 77).set_requires_grad();
  nn::RecurrentState start{.hidden = numbers({4, 2, 4}, 5)};
  if (dynamic_cast<const nn::LSTM*>(&layer) != nullptr) start.cell = numbers({4, 2, 4}, 6);
  const nn::Unrolled all = layer.unroll(x, start, tensor<std::int64_t>({5, 3}));
  check_golden_values(all.outputs[0][0], golden.first);
  check_golden_values(all.outputs[4][0], golden.last);
  check_golden_values(all.outputs[2][1], golden.short_last);
  check_golden_values(all.outputs[3][1], Values(8, 0));
  CHECK(weighed(all.outputs, 9) == Approx(golden.outputs).epsilon(1e-12));
  CHECK(weighed(all.state.hidden, 3) == Approx(golden.hidden).epsilon(1e-12));
  if (all.state.cell.defined()) CHECK(weighed(all.state.cell, 4) == Approx(golden.cell).epsilon(1e-12));
  op::sum(all.outputs * numbers(all.outputs.shape(), 9)).backward();
  check_golden_values(x.grad().reshape({30}).slice(0, 0, 6), golden.x_gradient);
  std::size_t i = 0;
  for (const Tensor& parameter : layer.parameters()) {
    INFO("parameter " << i);
    CHECK(std::abs(weighed(parameter.grad(), 2) - golden.gradients.at(i++)) < 1e-12);
  }
}

constexpr nn::RecurrentOptions both_ways{.layers = 2, .bidirectional = true, .dtype = DType::float64};

}  // namespace

TEST_CASE("nn: RNN, LSTM and GRU beside torch", "[nn]") {
  check_golden(nn::RNN(3, 4, both_ways),
               {{-0.31890573408211037, 0.2572362305310412, -0.9412069688613136, -0.5200062718776028, 0.5301213988017252,
                 0.11864981717611899, 0.5351529652616875, 0.48758834430099063},
                {-0.6404410851904321, 0.027530009340594592, -0.9269178339370917, -0.5064400740871713,
                 0.6906766782142141, -0.06203801709752686, 0.6847855219334744, 0.24888200643639571},
                {-0.2756768367718333, 0.3980710355261307, -0.7287374796121668, -0.012688370186832831,
                 0.4659783708177399, -0.2081495194756036, 0.36438857033722083, 0.2711670302220603},
                -2.3929493551950083,
                -0.2901440131546389,
                0,
                {-0.06226257167369613, -0.06386130650572387, -0.10434987709588284, -0.13761006706649997,
                 -0.11628454402659887, -0.15114624842503346},
                {-0.06939546142912646, 0.4223614675772528, 0.2830900626455254, 0.28309006264552544, 0.0203483276415537,
                 -0.3648662702412736, -0.13694771937861472, -0.13694771937861472, -0.49515368994754333,
                 -0.08681932380677554, 0.16314111310081186, 0.16314111310081186, 0.8642740642895024,
                 0.08640164728685394, 0.2812715607951913, 0.2812715607951913}});
  check_golden(nn::LSTM(3, 4, both_ways),
               {{-0.06601259466494792, 0.05254725584137469, -0.017637690194064103, 0.11828759362562506,
                 0.17128697957044817, -0.206654664777311, -0.01345119751862895, 0.2577968258442234},
                {-0.27405279442697655, 0.1486171675078996, 0.04886531573235671, 0.0807571763602996, 0.11542568399565838,
                 0.00848648609815842, -0.03616814989333224, 0.11081034589912729},
                {-0.32073163881799394, 0.13036675354042937, 0.054781987018382036, -0.04443549622941517,
                 -0.024808330494709385, -0.18721487571544213, -0.06550761686141061, 0.04396282555954438},
                -0.5853765070396377,
                0.06557112147144611,
                -0.2577867353789342,
                {-0.0011411162501915526, 0.008266922115523594, -0.015278518136385423, 0.013897752813289317,
                 -0.003102759020372295, -0.00763701453043707},
                {0.002888843008938326, 0.023192803485403198, -0.029981568539786674, -0.029981568539786695,
                 0.018988011286575276, 0.011154608094741955, -0.027164961284036483, -0.027164961284036483,
                 -0.04847080832982874, 0.028385192454436336, -0.10809136736501167, -0.10809136736501168,
                 -0.10022447328459624, -0.11476867005800757, 0.04027748914177946, 0.04027748914177947}});
  check_golden(nn::GRU(3, 4, both_ways),
               {{-0.19366957204465257, 0.5301398019463563, 0.2136002465379903, 0.11596376791473652, 0.35431957440511547,
                 -0.3928545063036427, -0.1067036201038991, 0.3980819724197066},
                {-0.39116269330096065, 0.4383865966868422, 0.5011133490342645, 0.06778367776135655, 0.20087623025396012,
                 0.01180915238864877, -0.18585822728752371, 0.06741114775278825},
                {-0.12945039468600195, 0.4285934099586362, 0.5323391802668669, -0.017050321522196293,
                 0.18608253747991968, -0.37854748638176217, -0.30272140039206963, -0.1688545372126522},
                -0.6770572815392848,
                0.25430065057480583,
                0,
                {0.001550119317861023, 0.08512952721162026, -0.05422968074221508, 0.027761609880859676,
                 -0.007680671887818151, -0.013627902526905702},
                {0.025273723161466602, 0.03859659532308445, 0.015698846622788865, -0.00992514529799847,
                 -0.020293586543118546, -0.003463492756075555, 0.03509648683197892, 0.022666044151875054,
                 -0.14066425903607785, 0.05230583006689854, -0.1047062185406539, -0.09529501768126794,
                 0.006515071889907749, -0.19331881399611145, -0.2452007213127515, -0.1901227814478859}});
}

TEST_CASE("nn: recurrent layers have torch's names and shapes", "[nn]") {
  const nn::LSTM lstm(3, 4, {.layers = 2, .bidirectional = true});
  std::vector<std::string> names;
  for (const auto& [name, parameter] : lstm.named_parameters()) names.push_back(message(name, parameter.shape()));
  CHECK(names == std::vector<std::string>{"weight_ih_l0[16,3]", "weight_hh_l0[16,4]", "bias_ih_l0[16]",
                                          "bias_hh_l0[16]", "weight_ih_l0_reverse[16,3]", "weight_hh_l0_reverse[16,4]",
                                          "bias_ih_l0_reverse[16]", "bias_hh_l0_reverse[16]", "weight_ih_l1[16,8]",
                                          "weight_hh_l1[16,4]", "bias_ih_l1[16]", "bias_hh_l1[16]",
                                          "weight_ih_l1_reverse[16,8]", "weight_hh_l1_reverse[16,4]",
                                          "bias_ih_l1_reverse[16]", "bias_hh_l1_reverse[16]"});
  CHECK(lstm.describe() == "LSTM(3, 4, layers 2, bidirectional)");
  CHECK(nn::GRU(3, 4, {.bias = false}).named_parameters().size() == 2);
  for (const Tensor& parameter : nn::GRU(3, 16).parameters())
    for (const double value : parameter.values()) CHECK(std::abs(value) <= 0.25);
  CHECK(nn::summary(nn::RNN(3, 4, {.layers = 2}), {5, 2, 3}).flops == 2 * 10 * (4 * 7 + 4 * 8));
}

TEST_CASE("nn: a recurrent layer goes on from its state, in both orders of the batch", "[nn]") {
  const nn::GRU layer(3, 4, {.dtype = DType::float64});
  set_parameters(layer);
  const Tensor x = numbers({6, 2, 3}, 1);
  const nn::Unrolled whole = layer.unroll(x), first = layer.unroll(x.slice(0, 0, 2)),
                     rest = layer.unroll(x.slice(0, 2, 6), first.state);
  check_golden_values(op::cat({first.outputs, rest.outputs}, 0), whole.outputs.contiguous().values());
  check_golden_values(rest.state.hidden, whole.state.hidden.values());
  nn::GRU turned(3, 4, {.batch_first = true, .dtype = DType::float64});
  turned.load_state(layer.state());
  check_golden_values(turned(x.transpose(0, 1)).transpose(0, 1), whole.outputs.contiguous().values());
  check_golden_values(layer(x.slice(1, 1, 2).squeeze(1)), whole.outputs.slice(1, 1, 2).contiguous().values());
  CHECK(layer.unroll(x[0]).state.hidden.shape() == Shape{1, 4});
}

TEST_CASE("nn: dropout between recurrent layers", "[nn]") {
  nn::RNN layer(3, 8, {.layers = 2, .dropout = 0.5});
  const Tensor x = ones({4, 2, 3});
  manual_seed(1);
  const Values once = layer(x).values(), again = layer(x).values();
  CHECK(once != again);
  layer.eval();
  CHECK(layer(x).values() == layer(x).values());
}

TEST_CASE("nn: recurrent layers name what is wrong", "[nn]") {
  CHECK_THROWS_AS(nn::LSTM(0, 4), ShapeError);
  CHECK_THROWS_AS(nn::LSTM(3, 4, {.layers = 0}), ShapeError);
  CHECK_THROWS_AS(nn::LSTM(3, 4, {.dropout = 2}), NumericError);
  CHECK_THROWS_AS(nn::LSTM(3, 4, {.dtype = DType::int64}), DTypeError);
  const nn::LSTM layer(3, 4, {.layers = 2});
  CHECK_THROWS_WITH(layer.unroll(ones({5, 2, 4})), Catch::ContainsSubstring("[5,2,4]"));
  CHECK_THROWS_WITH(layer.unroll(ones({5, 2, 3}), {.hidden = ones({1, 2, 4})}), Catch::ContainsSubstring("[1,2,4]"));
  CHECK_THROWS_WITH(nn::GRU(4, 3).unroll(ones({5, 2, 4}), {.hidden = ones({1, 2, 3}), .cell = ones({1, 2, 3})}),
                    Catch::ContainsSubstring("GRU: a cell state"));
}

TEST_CASE("nn: what lies behind the end of a sequence changes nothing, whatever it is", "[nn]") {
  const Tensor lengths = tensor<std::int64_t>({5, 3, 0}, {3});
  const auto check_layer = [&](const auto& layer) {
    INFO(layer.describe());
    const auto gradients_with = [&](double behind) {
      Tensor x = numbers({5, 3, 4}, 3);
      x.slice(0, 3, 5).slice(1, 1, 2).fill_(behind);
      x.slice(1, 2, 3).fill_(behind);
      x.set_requires_grad();
      const nn::Unrolled all = layer.unroll(x, {}, lengths);
      std::vector<Values> found{all.outputs.values(), all.state.hidden.values()};
      for (Tensor parameter : layer.parameters()) parameter.zero_grad();
      op::sum(all.outputs * numbers(all.outputs.shape(), 5)).backward();
      for (const Tensor& parameter : layer.parameters()) found.push_back(parameter.grad().values());
      found.push_back(x.grad().values());
      return found;
    };
    const std::vector<Values> expected = gradients_with(0);
    for (const Values& values : expected)
      for (const double value : values) REQUIRE(std::isfinite(value));
    for (const double behind : {1e300, std::nan(""), HUGE_VAL}) CHECK(gradients_with(behind) == expected);
    // A sequence without steps keeps its first state and gives nothing.
    const nn::Unrolled all = layer.unroll(numbers({5, 3, 4}, 3), {}, lengths);
    for (const double value : all.outputs.slice(1, 2, 3).contiguous().values()) CHECK(value == 0);
    for (const double value : all.state.hidden.slice(1, 2, 3).contiguous().values()) CHECK(value == 0);
  };
  const nn::RecurrentOptions options{.layers = 2, .bidirectional = true, .dtype = DType::float64};
  check_layer(nn::RNN(4, 3, options));
  check_layer(nn::LSTM(4, 3, options));
  check_layer(nn::GRU(4, 3, options));
}
