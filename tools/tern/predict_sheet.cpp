#include "predict_sheet.hpp"

#include <algorithm>

#include "nets.hpp"
#include "pictures.hpp"
#include "sheet.hpp"
#include "text.hpp"

namespace tern::tool {

namespace {

constexpr std::size_t most_shown = 240;
constexpr std::int64_t largest_side = 112;  // as wide as the page shows them

struct Groups {
  std::vector<std::size_t> wrong, right, unknown;
};

Groups groups_of(const Prediction& prediction, const SheetNames& names) {
  Groups groups;
  for (std::size_t i = 0; i < prediction.predicted.size(); ++i) {
    const std::int64_t expected = names.expected.empty() ? -1 : names.expected[i];
    (expected < 0 ? groups.unknown : expected == prediction.predicted[i] ? groups.right : groups.wrong).push_back(i);
  }
  const auto surer = [&](std::size_t a, std::size_t b) { return prediction.score_of(a) > prediction.score_of(b); };
  std::stable_sort(groups.wrong.begin(), groups.wrong.end(), surer);
  for (auto* group : {&groups.right, &groups.unknown})
    std::stable_sort(group->begin(), group->end(), [&](std::size_t a, std::size_t b) { return surer(b, a); });
  return groups;
}

std::string shown_words(std::size_t shown, std::size_t all) {
  return shown < all ? message("; the first ", shown, " of them") : std::string();
}

std::string size_words(const Blueprint& blueprint) { return message(blueprint.input[1], "x", blueprint.input[2]); }

}  // namespace

void write_predict_sheet(const std::string& file, const std::string& model, const Examples& set,
                         const Prediction& prediction, const SheetNames& names, const Blueprint& blueprint) {
  const auto class_name = [&](std::int64_t i) { return blueprint.classes[static_cast<std::size_t>(i)]; };
  const auto picture = [&](std::size_t i) {
    const auto score = static_cast<double>(prediction.score_of(i));
    SheetPicture one{.pixels = pixels_of(set.example(prediction.rows[i], blueprint), blueprint.scaling, largest_side),
                     .title = class_name(prediction.predicted[i])};
    one.caption = prediction.probabilities ? fixed(100 * score, 1) + " % sure" : "score " + fixed(score, 3);
    if (prediction.probabilities) one.share = score;
    const std::int64_t expected = names.expected.empty() ? -1 : names.expected[i];
    if (expected >= 0 && expected != prediction.predicted[i]) one.wrong = names.by + ": " + class_name(expected);
    one.file = names.files.empty() ? message("example ", prediction.rows[i] + 1) : names.files[i];
    return one;
  };
  std::size_t left = most_shown;
  std::vector<SheetPart> parts;
  const auto add = [&](const std::vector<std::size_t>& group, const std::string& what, const std::string& order) {
    if (group.empty()) return;
    const std::size_t shown = std::min(left, group.size());
    left -= shown;
    SheetPart part{.heading = message(counted(static_cast<std::int64_t>(group.size()), "picture"), what,
                                      group.size() > 1 ? order : std::string(), shown_words(shown, group.size()))};
    for (std::size_t i = 0; i < shown; ++i) part.pictures.push_back(picture(group[i]));
    parts.push_back(std::move(part));
  };
  const Groups groups = groups_of(prediction, names);
  const std::string said = names.by == "folder" ? "the folder's name" : "the label";
  const std::string least = ", the least sure first";
  add(groups.wrong, ": the model predicts another class than " + said, ", the surest first");
  add(groups.right, ": the model predicts what " + said + " says", least);
  add(groups.unknown, groups.wrong.size() + groups.right.size() == 0 ? "" : " in folders without a class name", least);

  const std::size_t compared = groups.wrong.size() + groups.right.size();
  std::string note = message("Below each picture is its class, one of ", blueprint.class_count(), ", that the model ",
                             model, " (", describe_net(blueprint), ") predicts");
  note += prediction.probabilities ? ", with its probability, also as a bar.\n" : ".\n";
  if (compared > 0)
    note += message(groups.right.size(), " of ", compared, " (",
                    fixed(100.0 * static_cast<double>(groups.right.size()) / static_cast<double>(compared), 1),
                    " %) agree with ", said, ". Framed in red: the others. Either may be wrong, the model or ", said,
                    ".\n");
  note +=
      "Pictures are shown as the model sees them: " +
      (names.files.empty() ? size_words(blueprint) + " pixels." : "cropped to " + size_words(blueprint) + " pixels.");
  write_sheet(file, "Predicted classes", note, parts, false);
}

}  // namespace tern::tool
