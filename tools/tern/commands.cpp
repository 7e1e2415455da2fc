#include <memory>

#include "verbs.hpp"

namespace tern::tool {

const std::vector<Entry>& commands() {
  static const std::vector<Entry> table{{"train", make_train},           {"test", make_test},
                                        {"predict", make_predict},       {"tune", make_tune},
                                        {"report", make_report},         {"compare", make_compare},
                                        {"bench", make_bench},           {"info", make_info},
                                        {"export", make_export},         {"convert", make_convert},
                                        {"graph", make_graph},           {"quantize", make_quantize},
                                        {"completion", make_completion}, {"man", make_man}};
  return table;
}

}  // namespace tern::tool
