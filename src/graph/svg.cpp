// A drawing of a graph: rows by the longest path from the inputs, a box per node with its module and shape. Attributes
// show when the pointer rests on a box.

#include <algorithm>

#include "graph/batch_text.hpp"

namespace tern::graph {

namespace {

constexpr int box_width = 180, box_height = 52, gap_x = 24, gap_y = 30, margin = 20;

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '<')
      result += "&lt;";
    else if (c == '&')
      result += "&amp;";
    else if (c == '"')
      result += "&quot;";
    else if (static_cast<unsigned char>(c) >= ' ')
      result += c;
  }
  return result;
}

std::string shortened(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

/// What stands in one box, and where.
struct Box {
  std::string title, detail, shape, hint;
  int row = 0, column = 0;
  int x() const { return margin + column * (box_width + gap_x); }
  int y() const { return margin + row * (box_height + gap_y); }
};

struct Line {
  std::size_t from, to;
};

/// "n x 3 x 28 x 28".
std::string plain_shape(const std::vector<Linear>& shape) {
  std::string text;
  for (const Linear& size : shape) {
    const std::string number = written(size);
    text += (text.empty() ? "" : " x ") + (number[0] == '{' ? number.substr(1, number.size() - 2) : number);
  }
  return text;
}

}  // namespace

std::string Graph::svg() const {
  const Structure& own = structure();
  std::vector<Box> boxes;
  std::vector<Line> lines;
  std::vector<int> box_of(own.values.size(), -1);  // of the value's maker
  for (const int id : own.inputs) {
    box_of[id] = static_cast<int>(boxes.size());
    boxes.push_back({own.values[id].name, "input", plain_shape(own.values[id].shape), ""});
  }
  const auto connect = [&](int id, std::size_t to) {
    if (id < 0 || box_of[id] < 0) return;
    const auto from = static_cast<std::size_t>(box_of[id]);
    boxes[to].row = std::max(boxes[to].row, boxes[from].row + 1);
    lines.push_back({from, to});
  };
  for (const Node& node : own.nodes) {
    const std::string attributes = node.by_batch.empty() ? node.op->write(node.attributes) : node.by_batch;
    const std::size_t place = boxes.size();
    const std::string shape = node.results.empty() ? "" : plain_shape(own.values[node.results[0]].shape);
    boxes.push_back({node.op->name(), shortened(node.module, 28), shape, attributes});
    for (const int id : node.inputs) connect(id, place);
    for (const int id : node.results) box_of[id] = static_cast<int>(place);
  }
  for (const int id : own.results) {
    boxes.push_back({own.values[id].name, "result", plain_shape(own.values[id].shape), ""});
    connect(id, boxes.size() - 1);
  }
  std::vector<int> filled;
  for (Box& box : boxes) {
    if (static_cast<int>(filled.size()) <= box.row) filled.resize(static_cast<std::size_t>(box.row) + 1);
    box.column = filled[static_cast<std::size_t>(box.row)]++;
  }
  const int columns = *std::ranges::max_element(filled), rows = static_cast<int>(filled.size());
  const int width = 2 * margin + columns * (box_width + gap_x) - gap_x;
  const int height = 2 * margin + rows * (box_height + gap_y) - gap_y;
  // A row in the middle of the widest one.
  const auto shift = [&](const Box& box) {
    return (columns - filled[static_cast<std::size_t>(box.row)]) * (box_width + gap_x) / 2;
  };
  std::string text =
      message("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"", height, "\" viewBox=\"0 0 ",
              width, ' ', height,
              "\">\n<style>svg{background:#fff}text{font:12px sans-serif;fill:#222}.s{font-size:10px;fill:#666}"
              "rect{fill:#eef3fb;stroke:#6b8fc9}path{fill:none;stroke:#888}</style>\n<title>",
              escaped(own.name), "</title>\n");
  for (const Line& line : lines) {
    const Box &from = boxes[line.from], &to = boxes[line.to];
    const int x = from.x() + shift(from) + box_width / 2, y = from.y() + box_height;
    const int end_x = to.x() + shift(to) + box_width / 2, end_y = to.y(), middle = gap_y / 2;
    text += message("<path d=\"M", x, ' ', y, " C", x, ' ', y + middle, ' ', end_x, ' ', end_y - middle, ' ', end_x,
                    ' ', end_y, "\"/>\n");
  }
  for (const Box& box : boxes) {
    const int x = box.x() + shift(box), y = box.y();
    text += message("<g><title>", escaped(box.hint), "</title><rect x=\"", x, "\" y=\"", y, "\" width=\"", box_width,
                    "\" height=\"", box_height, "\" rx=\"6\"/><text x=\"", x + 10, "\" y=\"", y + 17, "\">",
                    escaped(box.title), "</text><text class=\"s\" x=\"", x + 10, "\" y=\"", y + 32, "\">",
                    escaped(box.detail), "</text><text class=\"s\" x=\"", x + 10, "\" y=\"", y + 45, "\">",
                    escaped(box.shape), "</text></g>\n");
  }
  return text + "</svg>\n";
}

}  // namespace tern::graph
