#include "times.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include "tern/core/error.hpp"

namespace tern::benchmarks {

void write_times(const std::string& file, const Times& times) {
  std::ofstream out(file);
  const Figures& on = times.figures;
  out << "card;" << times.card << "\nfigures;" << on.capability << ';' << on.multiprocessors << ';'
      << on.shared_per_block << ';' << on.clusters << ';' << on.clock << '\n';
  for (const Sample& sample : times.samples) {
    const Member& member = members()[static_cast<std::size_t>(sample.member)];
    const std::string of = member.cases[static_cast<std::size_t>(sample.number)].text();
    for (const Timed& cut : sample.cuts) out << member.name << ';' << of << ';' << cut.cut << ';' << cut.time << '\n';
  }
  out.close();
  expects<FileError>(out.good(), file, ": cannot be written");
}

namespace {

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream text(line);
  for (std::string field; std::getline(text, field, ';');) fields.push_back(field);
  return fields;
}

template <class T>
T number(const std::string& file, const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  expects<FileError>(error == std::errc() && end == text.data() + text.size(), file, ": \"", text, "\" is no number");
  return value;
}

}  // namespace

Times read_times(const std::string& file) {
  std::map<std::pair<std::string, std::string>, std::pair<int, int>> known;
  for (std::size_t member = 0; member < members().size(); ++member)
    for (std::size_t i = 0; i < members()[member].cases.size(); ++i)
      known[{members()[member].name, members()[member].cases[i].text()}] = {static_cast<int>(member),
                                                                            static_cast<int>(i)};
  Times times;
  std::map<std::pair<int, int>, Sample> samples;
  std::ifstream in(file);
  expects<FileError>(in.good(), file, ": cannot be read");
  for (std::string line; std::getline(in, line);) {
    const std::vector<std::string> fields = fields_of(line);
    if (fields.size() == 2 && fields[0] == "card") {
      times.card = fields[1];
    } else if (fields.size() == 6 && fields[0] == "figures") {
      times.figures = cuda::tuning::figures_of(number<int>(file, fields[1]));
      times.figures.multiprocessors = number<int>(file, fields[2]);
      times.figures.shared_per_block = number<std::size_t>(file, fields[3]);
      times.figures.clusters = number<int>(file, fields[4]) != 0;
      times.figures.clock = number<float>(file, fields[5]);
    } else {
      const auto place = fields.size() == 4 ? known.find({fields[0], fields[1]}) : known.end();
      expects<FileError>(place != known.end(), file, ": the line \"", line, "\" is of another version of fit_costs");
      Sample& sample = samples[place->second];
      sample.member = place->second.first, sample.number = place->second.second;
      sample.cuts.push_back({number<int>(file, fields[2]), number<float>(file, fields[3])});
    }
  }
  expects<FileError>(times.figures.capability > 0, file, ": the line of the card's figures is missing");
  for (const auto& [place, sample] : samples) {
    const Member& member = members()[static_cast<std::size_t>(sample.member)];
    const Costs costs = cuda::tuning::plain_costs(times.figures);
    const std::size_t cuts =
        member.guesses(times.figures, costs, member.cases[static_cast<std::size_t>(sample.number)]).size();
    for (const Timed& cut : sample.cuts)
      expects<FileError>(cut.cut >= 0 && static_cast<std::size_t>(cut.cut) < cuts && cut.time > 0, file,
                         ": no cut has the number ", cut.cut, " or takes ", cut.time, " microseconds");
    times.samples.push_back(sample);
  }
  return times;
}

std::vector<int> cuts_to_time(const std::vector<float>& one, const std::vector<float>& other) {
  constexpr std::size_t all = 26, cheapest = 5, between = 10;
  std::vector<int> numbers(one.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  if (numbers.size() <= all) return numbers;
  std::set<int> taken;
  for (const std::vector<float>* const guesses : {&other, &one}) {
    std::stable_sort(numbers.begin(), numbers.end(), [&](int a, int b) {
      return (*guesses)[static_cast<std::size_t>(a)] < (*guesses)[static_cast<std::size_t>(b)];
    });
    taken.insert(numbers.begin(), numbers.begin() + cheapest);
  }
  // By the first costs: more of the cheap ones.
  for (std::size_t i = 0; i < between; ++i) {
    const double share = static_cast<double>(i + 1) / static_cast<double>(between + 1);
    taken.insert(numbers[static_cast<std::size_t>(share * share * static_cast<double>(numbers.size() - 1))]);
  }
  return {taken.begin(), taken.end()};
}

// ---- the header ----

namespace {

using namespace cuda::tuning;

std::string text(float value) {
  std::ostringstream out;
  out.precision(3);
  out << value;
  const std::string digits = out.str();
  return digits.find('.') == std::string::npos && digits.find('e') == std::string::npos ? digits : digits + 'f';
}

std::string list(const float* from, std::size_t count) {
  std::string all = "{";
  for (std::size_t i = 0; i < count; ++i) all += (i == 0 ? "" : ", ") + text(from[i]);
  return all + '}';
}

std::string block(const Block& of) {
  const float numbers[]{of.work_k, of.work_once, of.wait_k, of.wait_once};
  return list(numbers, 4);
}

template <std::size_t Count, class Name>
std::string blocks(const Block (&of)[Count], const Name& name) {
  std::string all = "{";
  for (std::size_t i = 0; i < Count; ++i) all += block(of[i]) + (i + 1 < Count ? "," : "},") + "  // " + name(i) + '\n';
  return all;
}

std::string name(const SliceSize& size) { return message(size.rows, 'x', size.all_columns(), '/', size.warps); }

std::string of_tiles(const Tiles& of) {
  return message(
      "{.of = ", blocks(of.of, [](std::size_t i) { return message(tile_sizes[i].rows, 'x', tile_sizes[i].columns); }),
      ".split = ", text(of.split), ", .part = ", text(of.part), ", .reached = ", list(of.reached, 4), '}');
}
std::string of_slices(const Slices& of) {
  return message("{.of = ", blocks(of.of, [](std::size_t i) { return name(forward_sizes[i]); }),
                 ".resident = ", list(of.resident, forward_slices), ", .exposed = ", text(of.exposed),
                 ", .again = ", text(of.again), '}');
}
std::string of_pairs(const SlicePairs& of) {
  return message("{.weight = ", blocks(of.weight, [](std::size_t i) { return name(weight_sizes[i]); }),
                 ".data = ", blocks(of.data, [](std::size_t i) { return name(data_sizes[i]); }),
                 ".resident = ", list(of.resident, backward_slices), ", .exposed = ", text(of.exposed),
                 ", .again = ", text(of.again), '}');
}

template <class Columns>
std::string columns(const Columns& of, const std::vector<const char*>& names) {
  std::string all = "{";
  std::size_t i = 0;
  [&]<auto... part>(MemberList<part...>) {
    ((all += message(i == 0 ? "." : ", .", names[i], " = ", text(of.*part)), ++i), ...);
  }
  (typename Columns::Members{});
  return all + '}';
}
template <class Columns>
std::string cut(const Cut<Columns>& of, const std::vector<const char*>& names) {
  return message("{.work = ", columns(of.work, names), ", .wait = ", columns(of.wait, names),
                 ", .exposed = ", text(of.exposed), '}');
}

}  // namespace

void write_costs(const std::string& file, const Header& header, Costs costs) {
  const std::vector<const char*> forward{"once", "packs", "slices", "columns", "splits", "tiles"},
      weight{"once", "packs", "slices", "columns", "splits", "tiles", "rounds"},
      x{"once", "weights", "elements", "products", "sums"};
  std::ofstream out(file);
  out << "#pragma once\n"
      << header.comment << "\n#include \"cuda/tuning/costs.cuh\"\n\nnamespace tern::cuda::tuning {\n\n"
      << "inline constexpr Costs " << header.name << "{\n// work_k, work_once, wait_k, wait_once\n"
      << ".strict_tiles = " << of_tiles(costs.strict_tiles) << ",\n.rounded_tiles = " << of_tiles(costs.rounded_tiles)
      << ",\n.rounded_backward_tiles = " << of_tiles(costs.rounded_backward_tiles)
      << ",\n.strict_slices = " << of_slices(costs.strict_slices)
      << ",\n.rounded_slices = " << of_slices(costs.rounded_slices)
      << ",\n.strict_pairs = " << of_pairs(costs.strict_pairs)
      << ",\n.rounded_pairs = " << of_pairs(costs.rounded_pairs)
      << ",\n.strict_forward = " << cut(costs.strict_forward, forward)
      << ",\n.rounded_forward = " << cut(costs.rounded_forward, forward)
      << ",\n.strict_grad_weight = " << cut(costs.strict_grad_weight, weight)
      << ",\n.rounded_grad_weight = " << cut(costs.rounded_grad_weight, weight)
      << ",\n.strict_grad_x = " << cut(costs.strict_grad_x, x)
      << ",\n.rounded_grad_x = " << cut(costs.rounded_grad_x, x) << ",\n.strict_adding = " << text(costs.strict_adding)
      << ",\n.rounded_adding = " << text(costs.rounded_adding) << "};\n\n}  // namespace tern::cuda::tuning\n";
  out.close();
  expects<FileError>(out.good(), file, ": cannot be written");
}

}  // namespace tern::benchmarks
