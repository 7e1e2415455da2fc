#include "results.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace tern {

// Found by nlohmann's argument-dependent lookup.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Transfer, from, to, count, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Roofline, flops_per_second, bytes_per_second)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProfileRow, name, mode, backward, transfer, calls, seconds, share, flops, bytes,
                                   roofline)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProfileTable, rows, seconds, wall_seconds, wait_seconds, recorded, transfers)

namespace study {

NLOHMANN_JSON_SERIALIZE_ENUM(Status, {{Status::failed, "failed"},
                                      {Status::complete, "complete"},
                                      {Status::cut, "cut"},
                                      {Status::too_slow, "too slow"},
                                      {Status::does_not_fit, "does not fit"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Setting, epochs, images, data, classes, learning_rate, seed, steps, image_size,
                                   width_divisor, threads, memory_limit_gb)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CellKey, net, mode, precision, batch)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Spread, median, low, high)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Cell, key, commit, status, note, loss, step, move, warm_up, per_epoch, time,
                                   move_time, predicted_seconds, peak_bytes, seconds, transfers, profile)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NetFacts, name, parameters, image_size, forward_flops)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Machine, name, processor, modes, roofline)

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

std::string cell_file(const std::string& out, const CellKey& key) { return out + "/cells/" + file_name(key) + ".json"; }
std::string attempt_file(const std::string& out, const CellKey& key) {
  return out + "/cells/" + file_name(key) + ".begun";
}

template <class T>
std::optional<T> read_json(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) return std::nullopt;
  try {
    return json::parse(stream).get<T>();
  } catch (const json::exception& error) {
    throw FileError(
        message(file, ": is no result of this program (", error.what(), "); remove it to measure it again"));
  }
}

struct Header {
  Setting setting;
  Machine machine;
  std::string command, date, data;
  std::map<std::string, NetFacts> nets;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Header, setting, machine, command, date, data, nets)

// A loss that is not a number is JSON's null, read as NaN.
void restore(Cell& cell, const json& values) {
  cell.loss.clear();
  for (const json& value : values)
    cell.loss.push_back(value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN());
}

// A text as one value of a table.
std::string quoted(std::string text) {
  std::replace(text.begin(), text.end(), '"', '\'');
  return '"' + text + '"';
}

}  // namespace

void write_text(const std::string& file, const std::string& text) {
  io::remove_leftovers(file);  // of a run that was killed meanwhile
  io::AtomicFile out(file);
  out.write(std::as_bytes(std::span(text)));
  out.commit();
}

void write_cell(const std::string& out, const Cell& cell) {
  io::make_folders(out + "/cells");
  write_text(cell_file(out, cell.key), json(cell).dump() + "\n");
}

std::optional<Cell> read_cell(const std::string& out, const CellKey& key) {
  const std::string file = cell_file(out, key);
  std::optional<json> parsed = read_json<json>(file);
  if (!parsed) return std::nullopt;
  try {
    const json losses = parsed->at("loss");
    parsed->at("loss") = json::array();
    Cell cell = parsed->get<Cell>();
    restore(cell, losses);
    return cell;
  } catch (const json::exception& error) {
    throw FileError(
        message(file, ": is no result of this program (", error.what(), "); remove it to measure it again"));
  }
}

std::vector<Cell> read_cells(const std::string& out) {
  std::vector<Cell> cells;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(out + "/cells", error)) {
    if (entry.path().extension() != ".json") continue;
    // NET_MODE_PRECISION_BATCH: a mode's name may contain the separator, too.
    const std::string name = entry.path().stem().string();
    const auto net = name.find('_'), batch = name.rfind('_');
    const auto precision = batch == std::string::npos || batch == 0 ? std::string::npos : name.rfind('_', batch - 1);
    if (net == std::string::npos || precision == std::string::npos || net >= precision) continue;
    const CellKey key{name.substr(0, net), name.substr(net + 1, precision - net - 1),
                      name.substr(precision + 1, batch - precision - 1), std::stoll(name.substr(batch + 1))};
    if (std::optional<Cell> cell = read_cell(out, key)) cells.push_back(std::move(*cell));
  }
  const auto rank = [](const CellKey& key) {
    const std::string& mode = key.mode;
    const std::string& precision = key.precision;
    return std::tuple(key.net,
                      mode == "sequential"   ? 0
                      : mode == "vectorized" ? 1
                                             : 2,
                      mode,
                      precision == "strict" ? 0
                      : precision == "tf32" ? 1
                                            : 2,
                      key.batch);
  };
  std::sort(cells.begin(), cells.end(), [&](const Cell& a, const Cell& b) { return rank(a.key) < rank(b.key); });
  return cells;
}

void write_study(const std::string& out, const Study& study) {
  const Header header{study.setting, study.machine, study.command, study.date, study.data, study.nets};
  write_text(out + "/study.json", json(header).dump(1) + "\n");
}

std::optional<Study> read_study(const std::string& out) {
  const std::optional<Header> header = read_json<Header>(out + "/study.json");
  if (!header) return std::nullopt;
  return Study{header->setting, header->machine, header->command, header->date, header->data, header->nets, {}};
}

void write_tables(const std::string& out, const Study& study) {
  std::ostringstream loss, times, cells;
  loss << "network,mode,batch,step,loss,precision,epoch\n";
  times << "network,mode,batch,step,time,precision,epoch,move_time,warm_up\n";
  cells << "network,mode,precision,batch,status,steps,median_s,p10_s,p90_s,move_s,images_per_second,peak_bytes,"
           "bytes_moved_per_step,commit,note\n";
  for (const Cell& cell : study.cells) {
    const CellKey& key = cell.key;
    const std::string place = message(key.net, ',', key.mode, ',', key.batch, ',');
    for (std::size_t i = 0; i < cell.loss.size(); ++i) {
      const auto epoch = static_cast<std::int64_t>(i) / std::max<std::int64_t>(cell.per_epoch, 1) + 1;
      loss << place << i + 1 << ',' << cell.loss[i] << ',' << key.precision << ',' << epoch << '\n';
      times << place << i + 1 << ',' << cell.step[i] << ',' << key.precision << ',' << epoch << ',' << cell.move[i]
            << ',' << (static_cast<std::int64_t>(i) < cell.warm_up ? 1 : 0) << '\n';
    }
    std::int64_t moved = 0;
    for (const Transfer& transfer : cell.transfers) moved += transfer.bytes;
    cells << key.net << ',' << key.mode << ',' << key.precision << ',' << key.batch << ',' << name_of(cell.status)
          << ',' << cell.loss.size() << ',' << cell.time.median << ',' << cell.time.low << ',' << cell.time.high << ','
          << cell.move_time.median << ','
          << (cell.time.median > 0 ? static_cast<double>(key.batch) / cell.time.median : 0) << ',' << cell.peak_bytes
          << ',' << moved << ',' << quoted(cell.commit) << ',' << quoted(cell.note) << '\n';
  }
  const std::string end = "_" + study.machine.name + "_tern.csv";
  write_text(out + "/loss" + end, loss.str());
  write_text(out + "/times" + end, times.str());
  write_text(out + "/cells" + end, cells.str());
}

int begin_attempt(const std::string& out, const CellKey& key) {
  io::make_folders(out + "/cells");
  int count = 0;
  std::ifstream(attempt_file(out, key)) >> count;
  write_text(attempt_file(out, key), message(count + 1, '\n'));
  return count + 1;
}

void end_attempt(const std::string& out, const CellKey& key) {
  std::error_code error;
  fs::remove(attempt_file(out, key), error);
}

std::string difference(const Setting& before, const Setting& now) {
  const json a = before, b = now;
  std::string text;
  for (const auto& [name, value] : b.items())
    if (a.at(name) != value)
      text += message(text.empty() ? "" : ", ", name, ' ', a.at(name).dump(), " then, ", value.dump(), " now");
  return text;
}

}  // namespace study
}  // namespace tern
