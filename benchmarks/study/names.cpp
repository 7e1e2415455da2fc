#include "study.hpp"

namespace tern::study {

const char* name_of(Status status) {
  switch (status) {
    case Status::complete:
      return "complete";
    case Status::cut:
      return "cut";
    case Status::too_slow:
      return "too slow";
    case Status::does_not_fit:
      return "does not fit";
    case Status::failed:
      break;
  }
  return "failed";
}

std::string file_name(const CellKey& key) {
  return message(key.net, '_', key.mode, '_', key.precision, '_', key.batch);
}
std::string title_of(const CellKey& key) {
  return key.precision == "strict" ? key.mode : key.mode + " " + key.precision;
}
std::string roofline_key(const CellKey& key) { return key.mode + " " + key.precision; }

}  // namespace tern::study
