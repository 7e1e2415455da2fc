// Files are not trusted: whatever is wrong with one ends in an error of the library.

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "onnx/models.hpp"
#include "support/catch.hpp"

namespace {

using namespace tern;
using test::attribute;
using test::Model;
using test::node;

/// Reads bytes that may be damaged; anything but an error of the library fails the test.
bool reads(const std::string& bytes) {
  try {
    onnx::read(std::as_bytes(std::span(bytes.data(), bytes.size())), {.largest_tensor = 1 << 20});
    return true;
  } catch (const Error&) {
    return false;
  }
}

Model small() {
  Model model;
  model.input("x", {"N", "1", "4", "4"}).output("y");
  model.initializer("w", ones({2, 1, 3, 3})).initializer("shape", tern::tensor<std::int64_t>({0, -1}));
  model.add(node("Conv", {"x", "w"}, {"a"}, {attribute("pads", test::Integers{1, 1, 1, 1})}));
  model.add(node("Reshape", {"a", "shape"}, {"b"})).add(node("Softmax", {"b"}, {"y"}));
  return model;
}

TEST_CASE("onnx: damaged files end in an error of the library", "[onnx]") {
  const std::string whole = small().bytes();
  REQUIRE(reads(whole));
  for (std::size_t size = 0; size < whole.size(); ++size) reads(whole.substr(0, size));
  Generator generator(7);
  const auto draw = [&](std::size_t below) {
    return static_cast<std::size_t>(randint(0, static_cast<std::int64_t>(below), {1}, generator).item<std::int64_t>());
  };
  int read = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = whole;
    for (std::size_t changes = 1 + draw(3); changes > 0; --changes) {
      const std::size_t at = draw(damaged.size());
      switch (draw(4)) {
        case 0:
          damaged[at] = static_cast<char>(draw(256));
          break;
        case 1:
          damaged[at] = static_cast<char>(damaged[at] ^ (1 << draw(8)));
          break;
        case 2:
          damaged.erase(at, 1 + draw(4));
          break;
        default:
          damaged.insert(at, damaged.substr(draw(damaged.size()), 1 + draw(8)));
      }
      if (damaged.empty()) break;
    }
    read += reads(damaged);
  }
  CHECK(read > 0);  // some damage changes numbers alone
}

TEST_CASE("onnx: sizes of files are limits", "[onnx]") {
  Model model;
  model.input("x", {"1"}).output("y");
  model.initializer("shape", tern::tensor<std::int64_t>({1 << 20, 1 << 20}));
  model.add(node("ConstantOfShape", {"shape"}, {"a"})).add(node("Add", {"a", "x"}, {"y"}));
  CHECK_THROWS_AS(model.read(), onnx::OnnxError);

  Model endless;
  endless.input("x", {"1"}).output("y").initializer("count", scalar<std::int64_t>(std::int64_t{1} << 60));
  onnx::GraphProto body;
  body.inputs = {Model::value("i", {}, DType::int64), Model::value("go", {}, DType::boolean),
                 Model::value("s", {"1"}, DType::float32)};
  body.outputs = {Model::value("go", {}, DType::boolean), Model::value("s", {"1"}, DType::float32)};
  endless.add(node("Loop", {"count", "", "x"}, {"y"}, {attribute("body", body)}));
  CHECK_THROWS_WITH(endless.read(), Catch::ContainsSubstring("too many iterations"));
  CHECK_THROWS_WITH(endless.read({.most_nodes = 3}), Catch::ContainsSubstring("LoadOptions::most_nodes"));

  Model large;
  large.input("x", {"1000000", "1000000", "1000000"}).output("y").add(node("Relu", {"x"}, {"y"}));
  CHECK_THROWS_AS(large.read(), Error);
}

TEST_CASE("onnx: no tensor on the way is larger than allowed, also where elements must be known", "[onnx]") {
  Model model;
  model.input("x", {"N", "1", "8", "8"}).output("y").initializer("w", ones({1, 1, 1, 1}));
  const std::int64_t wide = 1 << 24;
  model.add(node("Conv", {"x", "w"}, {"a"}, {attribute("pads", test::Integers{wide, wide, wide, wide})}));
  model.add(node("NonZero", {"a"}, {"b"})).add(node("Gemm", {"b", "w"}, {"y"}));
  CHECK_THROWS_WITH(model.read(), Catch::ContainsSubstring("Conv of 'a'") &&
                                      Catch::ContainsSubstring("raise LoadOptions::largest_tensor"));
}

TEST_CASE("onnx: stored numbers whose nodes lack inputs or outputs are an error", "[onnx]") {
  const auto quantized = [] {
    Model model;
    model.input("x", {"N", "2", "4", "4"}).output("y").initializer("s", full({}, 0.1));
    model.initializer("z", full({}, 3, DType::uint8)).initializer("v", ones({2, 2, 1, 1}, DType::int8));
    model.add(node("QuantizeLinear", {"x", "s", "z"}, {"q"})).add(node("DequantizeLinear", {"q", "s", "z"}, {"r"}));
    model.add(node("DequantizeLinear", {"v", "s"}, {"w"})).add(node("Conv", {"r", "w"}, {"c"}));
    model.add(node("Relu", {"c"}, {"d"})).add(node("QuantizeLinear", {"d", "s", "z"}, {"e"}));
    return model.add(node("DequantizeLinear", {"e", "s", "z"}, {"y"}));
  };
  REQUIRE(reads(quantized().bytes()));
  for (std::size_t n = 0; n < quantized().proto.graph.nodes.size(); ++n) {
    INFO("node " << n);
    Model silent = quantized();
    silent.proto.graph.nodes[n].outputs.clear();
    CHECK_FALSE(reads(silent.bytes()));
    for (std::size_t inputs = 0; inputs < 2; ++inputs) {
      Model model = quantized();
      model.proto.graph.nodes[n].inputs.resize(inputs);
      const bool relu = model.proto.graph.nodes[n].type == "Relu" && inputs == 1;
      CHECK(reads(model.bytes()) == relu);
    }
  }
}

TEST_CASE("onnx: external data lies in the model's folder", "[onnx]") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / message("tern_onnx_", ::getpid());
  fs::create_directories(folder / "model");
  const auto write = [](const fs::path& file, const std::string& bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
  };
  write(folder / "model" / "weights.bin", std::string("....") + std::string("\0\0\x80\x3f\0\0\0\x40", 8));
  write(folder / "secret.bin", std::string(8, '\0'));
  const auto with = [&](const std::string& location, const std::string& offset, const std::string& length) {
    Model model;
    model.input("x", {"2"}).output("y").add(node("Add", {"x", "w"}, {"y"}));
    onnx::TensorProto proto;
    proto.name = "w";
    proto.type = 1;
    proto.dims = {2};
    proto.external = true;
    proto.place = {{"location", location}, {"offset", offset}, {"length", length}};
    model.proto.graph.initializers.push_back(proto);
    write(folder / "model" / "net.onnx", model.bytes());
    return onnx::load((folder / "model" / "net.onnx").string());
  };
  CHECK(with("weights.bin", "4", "8")(zeros({2})).values() == std::vector<double>{1, 2});
  CHECK_THROWS_WITH(with("../secret.bin", "0", "8"), Catch::ContainsSubstring("outside the model's folder"));
  CHECK_THROWS_WITH(with("/etc/passwd", "0", "8"), Catch::ContainsSubstring("outside the model's folder"));
  CHECK_THROWS_WITH(with("weights.bin", "8", "8"), Catch::ContainsSubstring("beyond the end"));
  CHECK_THROWS_WITH(with("weights.bin", "18446744073709551615", "8"), Catch::ContainsSubstring("beyond the end"));
  CHECK_THROWS_AS(with("weights.bin", "4", "4"), FileError);
  fs::create_symlink(folder / "secret.bin", folder / "model" / "link.bin");
  CHECK_THROWS_WITH(with("link.bin", "0", "8"), Catch::ContainsSubstring("link"));
  fs::remove_all(folder);
}

TEST_CASE("onnx: a name of two values is an error that names it", "[onnx]") {
  const auto said = [](const Model& model) {
    try {
      Model(model).read();
    } catch (const onnx::OnnxError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  Model whole;
  whole.input("x", {"2"}).initializer("w", ones({2})).output("y");
  whole.add(node("Add", {"x", "w"}, {"a"})).add(node("Relu", {"a"}, {"y"}));
  CHECK(said(whole) == "nothing");
  for (const char* taken : {"a", "x", "w"}) {
    Model twice = whole;
    twice.add(node("Neg", {"x"}, {taken}));
    CHECK_THAT(said(twice), Catch::ContainsSubstring(message("makes '", taken, "' twice")));
  }
  Model inputs = whole;
  inputs.input("x", {"2"});
  CHECK_THAT(said(inputs), Catch::ContainsSubstring("two inputs 'x'"));
  Model old = whole;
  old.input("w", {"2"});  // the initializer is a default
  CHECK(said(old) == "nothing");
  Model attributes = whole;
  attributes.add(node("LeakyRelu", {"a"}, {"b"}, {attribute("alpha", 0.1F), attribute("alpha", 0.2F)}));
  CHECK_THAT(said(attributes), Catch::ContainsSubstring("two attributes 'alpha'"));
  onnx::GraphProto branch;
  branch.outputs = {Model::value("b", {"2"}, DType::float32)};
  branch.nodes = {node("Neg", {"a"}, {"b"}), node("Relu", {"a"}, {"b"})};
  Model inside = whole;
  inside.initializer("yes", ones({}, DType::boolean));
  inside.add(node("If", {"yes"}, {"c"}, {attribute("then_branch", branch), attribute("else_branch", branch)}));
  CHECK_THAT(said(inside), Catch::ContainsSubstring("makes 'b' twice in a graph of If"));
}

TEST_CASE("onnx: a model that does other work for another batch keeps its sizes", "[onnx]") {
  // x times its own batch: as a constant it would be wrong for every other batch.
  Model model;
  model.input("x", {"N", "3"}).output("y").initializer("first", scalar<std::int64_t>(0));
  model.add(node("Shape", {"x"}, {"s"})).add(node("Gather", {"s", "first"}, {"n"}));
  model.add(node("Cast", {"n"}, {"f"}, {attribute("to", std::int64_t{1})})).add(node("Mul", {"x", "f"}, {"y"}));
  const graph::Graph net = model.read();
  CHECK(net.structure().batch == 0);
  CHECK(net(ones({2, 3})).values() == std::vector<double>(6, 2));
  CHECK_THROWS_AS(net(ones({5, 3})), ShapeError);
}

}  // namespace
