#include <memory>

#include "verbs.hpp"

namespace tern::tool {

const std::vector<Entry>& commands() {
  static const std::vector<Entry> table{{"train", make_train}, {"test", make_test},     {"predict", make_predict},
                                        {"tune", make_tune},   {"report", make_report}, {"info", make_info}};
  return table;
}

}  // namespace tern::tool
