// Files that are broken, or made to do harm: each ends with exit code 3 and one sentence that names the file, in little
// time and little memory.

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "data/pictures.hpp"
#include "process.hpp"
#include "samples.hpp"
#include "support/catch.hpp"
#include "tern/io/checkpoint.hpp"
#include "tern/io/safetensors.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using Json = nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t mebibyte = 1 << 20;

std::string repeated(const std::string& text, std::size_t times) {
  std::string result;
  for (std::size_t i = 0; i < times; ++i) result += text;
  return result;
}

/// A folder with a healthy table and model, and what the program takes at rest.
class Scene {
 public:
  Scene() {
    write_bytes(folder / "c.csv", clusters(60));
    const Outcome trained = run({"train", "--dataset", "c.csv", "--layers", "3,4,3", "--epochs", "2", "--run", "m"});
    REQUIRE(trained.code == 0);
    rest_ = trained.peak_bytes;
  }
  Outcome run(const std::vector<std::string>& arguments) {
    return tern(arguments, {.seconds = 20, .folder = folder.path()});
  }

  /// `arguments` fail because of `file`.
  void refuses(const std::string& what, const std::vector<std::string>& arguments, const std::string& file) {
    INFO(what);
    const Outcome outcome = run(arguments);
    INFO(outcome.err);
    CHECK_FALSE(outcome.timed_out);
    CHECK(outcome.code == 3);
    const auto last = outcome.err.rfind("tern: ");
    REQUIRE(last != std::string::npos);
    CHECK_THAT(outcome.err.substr(last), ContainsSubstring(file));
    const auto size = fs::is_regular_file(folder / file) ? static_cast<std::int64_t>(fs::file_size(folder / file)) : 0;
    CHECK(outcome.peak_bytes <= rest_ + 2 * size + 64 * mebibyte);
    ++count;
  }
  void refuses_bytes(const std::string& what, const std::string& name, const std::string& bytes,
                     std::vector<std::string> arguments) {
    write_bytes(folder / name, bytes);
    refuses(what, arguments, name);
  }

  TemporaryFolder folder;
  int count = 0;

 private:
  std::int64_t rest_ = 0;
};

}  // namespace

TEST_CASE("hostile: tables", "[tools][hostile]") {
  Scene scene;
  const auto refuses = [&](const std::string& what, const std::string& bytes) {
    scene.refuses_bytes(what, "bad.csv", bytes, {"train", "--dataset", "bad.csv", "--run", "r"});
  };
  refuses("empty", "");
  refuses("only line ends", repeated("\r\n", 100000));
  refuses("only separators", repeated(",,,\n", 100000));
  refuses("only a header", "a,b,c\n");
  refuses("one column", "1\n2\n3\n");
  refuses("one class", "1,2,a\n3,4,a\n");
  refuses("a name as the class", [] {
    std::string text;
    for (int i = 0; i < 100; ++i) text += "1,name " + std::to_string(i) + "\n";
    return text;
  }());
  refuses("one number as the target", "1,2.5\n3,2.5\n");
  refuses("too many fields", repeated("1,", 100000) + "a\n");
  refuses("a row without end", "1,2," + std::string(20 * mebibyte, 'x'));
  refuses("a quote without end", "1,2,\"" + std::string(20 * mebibyte, 'x'));
  refuses("quotes everywhere", std::string(mebibyte + 1, '"'));
  refuses("text after a quote", "\"1\"2,a\n");
  refuses("rows of different length", "1,2,a\n3,4,b\n5,c\n");
  refuses("a number that is none", "1,2,a\n3,4,b\n5,six,c\n");
  refuses("a missing value", "1,2,a\n3,,b\n");
  refuses("not a number", "1,2,a\n3,nan,b\n");
  refuses("infinity", "1,2,a\n3,-inf,b\n");
  refuses("beyond float", "1,2,a\n3,1e39,b\n");
  refuses("UTF-16", std::string("\xff\xfe") + std::string("1\0,\0a\0\n\0", 8));
  refuses("Latin-1", "1,caf\xe9\n2,tea\n");
  refuses("a picture", std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16) + std::string(1000, '\0'));
  refuses("zeros", std::string(mebibyte, '\0'));
  refuses("random bytes", [] {
    Generator generator(1);
    const auto numbers = randint(1, 256, {100000}, generator).to_vector<std::int64_t>();
    std::string bytes;
    for (const std::int64_t number : numbers) bytes += static_cast<char>(static_cast<unsigned char>(number));
    return bytes;
  }());
  refuses("a wide row before many empty lines",
          repeated("1,", 60000) + "a\n" + std::string(4 * mebibyte, '\n') + "1\n");
  refuses("a class per row", [] {
    std::string text;
    for (int i = 0; i < 70000; ++i) text += "1,row " + std::to_string(i) + "\n";
    return text;
  }());
  fs::create_directory(scene.folder / "folder.csv");
  scene.refuses("a folder", {"train", "--dataset", "folder.csv", "--run", "r"}, "folder.csv");
  scene.refuses("a pipe", {"train", "--dataset", "/dev/null", "--run", "r"}, "/dev/null");
  scene.refuses("no right to read", {"train", "--dataset", "/proc/1/mem", "--run", "r"}, "/proc/1/mem");
  CHECK(scene.count >= 28);
}

TEST_CASE("hostile: digits", "[tools][hostile]") {
  Scene scene;
  const std::string image_head = std::string("\0\0\x08\x03", 4), label_head = std::string("\0\0\x08\x01", 4);
  const auto images = [&](std::uint32_t n, std::size_t pixels) {
    return image_head + big_endian(n) + big_endian(28) + big_endian(28) + std::string(pixels, 'x');
  };
  const auto labels = [&](std::uint32_t n, char label) { return label_head + big_endian(n) + std::string(n, label); };
  fs::create_directory(scene.folder / "d");
  const auto refuses = [&](const std::string& what, const std::string& train_images, const std::string& train_labels) {
    write_bytes(scene.folder / "d/train-images-idx3-ubyte", train_images);
    write_bytes(scene.folder / "d/train-labels-idx1-ubyte", train_labels);
    write_bytes(scene.folder / "d/t10k-images-idx3-ubyte", images(2, 2 * 784));
    write_bytes(scene.folder / "d/t10k-labels-idx1-ubyte", labels(2, 1));
    scene.refuses(what, {"train", "--dataset", "d", "--run", "r"}, "d");
  };
  refuses("empty", "", labels(2, 1));
  refuses("cut short", images(2, 784), labels(2, 1));
  refuses("too long", images(2, 3 * 784), labels(2, 1));
  refuses("a claim of 4 billion images", images(0xffffffff, 784), labels(2, 1));
  refuses("sizes that overflow", image_head + repeated(big_endian(0xffffffff), 3) + "x", labels(2, 1));
  refuses("another number of labels", images(2, 2 * 784), labels(3, 1));
  refuses("a label out of range", images(2, 2 * 784), labels(2, 11));
  refuses("images and labels swapped", labels(2, 1), images(2, 2 * 784));
  refuses("an unknown type", std::string("\0\0\x07\x03", 4) + repeated(big_endian(1), 3) + "x", labels(1, 1));
  refuses("gzip that is none", "\x1f\x8b" + std::string(100, 'x'), labels(2, 1));
  CHECK(scene.count == 10);
}

TEST_CASE("hostile: models", "[tools][hostile]") {
  Scene scene;
  const std::string good = read_bytes(scene.folder / "m/model.safetensors");
  const io::Safetensors content = io::load_safetensors(scene.folder / "m/model.safetensors");
  const Json blueprint = Json::parse(content.metadata.at("tern.model"));
  const auto refuses = [&](const std::string& what, const std::string& bytes) {
    scene.refuses_bytes(what, "bad.safetensors", bytes, {"test", "--model", "bad.safetensors", "--dataset", "c.csv"});
  };
  refuses("empty", "");
  refuses("cut in the header", good.substr(0, 40));
  refuses("cut in the weights", good.substr(0, good.size() - 3));
  refuses("too long", good + "x");
  refuses("a header of 2^60 bytes", std::string("\0\0\0\0\0\0\0\x10", 8) + "{}");
  refuses("no header", std::string(8, '\0'));
  refuses("random", "\x10\0\0\0\0\0\0\0" + std::string(100, 'x'));
  const auto with_size = [](const std::string& header) {
    std::string size;
    for (std::size_t n = header.size(), i = 0; i < 8; ++i, n >>= 8)
      size += static_cast<char>(static_cast<unsigned char>(n));
    return size + header;
  };
  const auto numbered = [](int count, const std::string& value) {
    std::string text;
    for (int i = 0; i < count; ++i) text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":" + value;
    return text;
  };
  refuses("deep nesting", with_size(repeated("[", 100000)));
  refuses("a million words", with_size("{\"__metadata__\":{" + numbered(1000000, "\"\"") + "}}"));
  refuses("a quarter of a million empty weights",
          with_size("{" + numbered(250000, R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})") + "}"));

  const auto refuses_json = [&](const std::string& what, const std::string& text) {
    io::save_safetensors(scene.folder / "bad.safetensors", content.tensors, {{"tern.model", text}});
    scene.refuses(what, {"test", "--model", "bad.safetensors", "--dataset", "c.csv"}, "bad.safetensors");
  };
  const auto refuses_change = [&](const std::string& what, const std::string& key, const Json& value) {
    Json changed = blueprint;
    changed[key] = value;
    refuses_json(what, changed.dump());
  };
  refuses_json("a description that is no JSON", "{");
  refuses_json("a description that is nested", repeated("[", 5000));
  refuses_json("a description that is a list", "[]");
  refuses_json("a description of tiny values", "{\"format\": 1, \"classes\": [" + repeated("[],", 2000000) + "[]]}");
  refuses_json("a description of 15 MiB",
               "{\"format\": 1, \"classes\": [\"" + std::string(15 * mebibyte, 'a') + "\"]}");
  refuses_json("nothing in it", "{}");
  refuses_change("a later format", "format", 2);
  refuses_change("layers of a trillion weights", "layers", {3, 16000000, 16000000, 3});
  refuses_change("layers beyond any integer", "layers", {3, 1e48, 3});
  refuses_change("layers of fractions", "layers", {3, 4.5, 3});
  refuses_change("layers below one", "layers", {3, -4, 3});
  refuses_change("layers of another number", "layers", {3, 5, 3});
  refuses_change("layers that are text", "layers", "3,4,3");
  refuses_change("an unknown net", "net", "perceptron");
  refuses_change("a net for photographs", "net", "vgg16");
  refuses_change("no class", "classes", Json::array());
  refuses_change("another number of classes", "classes", {"a", "b"});
  refuses_change("a deviation of zero", "deviation", {1, 0, 1});
  refuses_change("too few means", "mean", {1});
  refuses_change("another input", "input", {1000000000});
  refuses_change("an input of four sizes", "input", {1, 2, 3, 4});
  refuses_change("an unknown activation", "activation", "swish");
  refuses_change("an unknown cost", "cost", 7);
  refuses_change("a share above one", "validation", 2);
  Json giant = blueprint;
  giant.update({{"table", false}, {"net", "vgg16"}, {"input", {3, 4096, 4096}}, {"columns", Json::array()}});
  refuses_json("the largest net for a small file", giant.dump());
  auto renamed = content.tensors;
  renamed["other"] = renamed.extract("0.weight").mapped();
  io::save_safetensors(scene.folder / "bad.safetensors", renamed, content.metadata);
  scene.refuses("a weight of another name", {"test", "--model", "bad.safetensors", "--dataset", "c.csv"},
                "bad.safetensors");
  auto transposed = content.tensors;
  transposed["0.weight"] = transposed["0.weight"].transpose(0, 1);
  io::save_safetensors(scene.folder / "bad.safetensors", transposed, content.metadata);
  scene.refuses("a weight of another shape", {"test", "--model", "bad.safetensors", "--dataset", "c.csv"},
                "bad.safetensors");
  io::save_safetensors(scene.folder / "bad.safetensors", content.tensors, {});
  scene.refuses("no description", {"test", "--model", "bad.safetensors", "--dataset", "c.csv"}, "bad.safetensors");
  CHECK(scene.count >= 30);
}

TEST_CASE("hostile: checkpoints", "[tools][hostile]") {
  Scene scene;
  const std::string checkpoints = scene.folder / "m/checkpoints";
  const auto newest = io::resume_checkpoint(checkpoints);
  REQUIRE(newest);
  const std::string good = read_bytes(newest->file);
  const auto refused = [&](const std::string& what) {
    scene.refuses(what, {"train", "--resume", "--run", "m", "--epochs", "3"}, "checkpoint");
  };
  const auto refuses_bytes = [&](const std::string& what, const std::string& bytes) {
    write_bytes(newest->file, bytes);
    refused(what);
  };
  refuses_bytes("empty", "");
  refuses_bytes("cut short", good.substr(0, good.size() / 2));
  refuses_bytes("one bit flipped", [&] {
    std::string bytes = good;
    bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 4);
    return bytes;
  }());
  refuses_bytes("a model instead", read_bytes(scene.folder / "m/model.safetensors"));
  // The sum is right in these: what they say is not.
  const auto refuses_change = [&](const std::string& what, const std::function<void(io::Checkpoint&)>& change) {
    io::Checkpoint changed = newest->checkpoint;
    change(changed);
    fs::remove_all(checkpoints);
    io::save_checkpoint(checkpoints, changed);
    refused(what);
  };
  refuses_change("no totals", [](io::Checkpoint& c) { c.tensors.erase("totals"); });
  refuses_change("totals of another shape",
                 [](io::Checkpoint& c) { c.tensors["totals"] = zeros({4}, DType::float64); });
  refuses_change("a history of another width", [](io::Checkpoint& c) {
    c.tensors["history"] = zeros({2, 3}, DType::float64);
  });
  refuses_change("a history of another length", [](io::Checkpoint& c) {
    c.tensors["history"] = zeros({5, 8}, DType::float64);
  });
  refuses_change("a count that is a matrix",
                 [](io::Checkpoint& c) { c.tensors["since_best"] = zeros({2}, DType::int64); });
  refuses_change("a batch beyond the epoch", [](io::Checkpoint& c) { c.batch = 1000; });
  refuses_change("a weight is missing", [](io::Checkpoint& c) { c.tensors.erase("model.0.weight"); });
  refuses_change("a weight of another shape", [](io::Checkpoint& c) { c.tensors["model.0.weight"] = zeros({2, 2}); });
  refuses_change("a moment of another shape", [](io::Checkpoint& c) { c.tensors["optimizer.0.exp_avg"] = zeros({1}); });
  refuses_change("no settings", [](io::Checkpoint& c) { c.metadata.erase("settings"); });
  refuses_change("settings that are no JSON", [](io::Checkpoint& c) { c.metadata["settings"] = "{\"epochs\": "; });
  refuses_change("settings that are a list", [](io::Checkpoint& c) { c.metadata["settings"] = "[1]"; });
  refuses_change("settings that do not exist", [](io::Checkpoint& c) { c.metadata["settings"] = "{\"bogus\": 1}"; });
  refuses_change("no model", [](io::Checkpoint& c) { c.metadata.erase("model"); });
  refuses_change("no end of the metrics", [](io::Checkpoint& c) { c.metadata["metrics"] = "-1"; });
  CHECK(scene.count == 19);
}

TEST_CASE("hostile: configurations, metrics and plans", "[tools][hostile]") {
  Scene scene;
  const auto refuses_config = [&](const std::string& what, const std::string& bytes) {
    scene.refuses_bytes(what, "bad.json", bytes, {"train", "--config", "bad.json"});
  };
  refuses_config("empty", "");
  refuses_config("not JSON", "epochs = 3");
  refuses_config("unfinished", "{\"epochs\": 3");
  refuses_config("a list", "[]");
  refuses_config("deep", repeated("{\"a\":", 100000));
  refuses_config("deep behind brackets in a text",
                 "{\"a\": \"" + std::string(300000, ']') + "\", \"b\": " + std::string(300000, '['));
  refuses_config("long", std::string(2 * mebibyte, ' ') + "{}");
  refuses_config("not UTF-8", "{\"dataset\": \"\xff\"}");
  fs::create_directory(scene.folder / "r");
  const auto refuses_metrics = [&](const std::string& what, const std::string& bytes) {
    scene.refuses_bytes(what, "r/metrics.jsonl", bytes, {"report", "r"});
  };
  refuses_metrics("empty", "");
  refuses_metrics("not JSON", "hello\n");
  refuses_metrics("a number", "{}\n3\n");
  refuses_metrics("deep", repeated("[", 100000) + "\n");
  refuses_metrics("tiny values", "{\"a\": [" + repeated("{},", 4000000) + "{}]}\n");
  refuses_metrics("many lines before the bad one", repeated("{\"a\":1,\"b\":2}\n", 1000000) + "hello\n");
  const auto refuses_plan = [&](const std::string& what, const std::string& bytes) {
    scene.refuses_bytes(what, "r/tune.json", bytes, {"tune", "--resume", "--run", "r"});
  };
  refuses_plan("empty", "");
  refuses_plan("a list", "[]");
  refuses_plan("tiny values", "{\"options\": {}, \"trials\": [" + repeated("[],", 4000000) + "[]]}");
  refuses_plan("no trials", "{\"options\": {}, \"trials\": []}");
  refuses_plan("a trial that is a number", "{\"options\": {}, \"trials\": [1]}");
  refuses_plan("an option that is none", "{\"options\": {\"bogus\": 1}, \"trials\": [{\"seed\": \"1\"}]}");
  CHECK(scene.count == 20);
}

#if TERN_TEST_IMAGES
TEST_CASE("hostile: photographs", "[tools][hostile]") {
  Scene scene;
  for (const char* name : {"p", "p/a", "p/b"}) fs::create_directory(scene.folder / name);
  for (int i = 0; i < 3; ++i)
    for (const char* name : {"p/a/", "p/b/"})
      write_bytes(scene.folder / (name + std::to_string(i) + ".png"), png_of(smooth_picture(20, 20)));
  const std::vector<std::string> train{"train", "--dataset", "p",       "--run",    "r", "--image-size",
                                       "16",    "--layers",  "768,4,2", "--epochs", "1", "--validation",
                                       "0"};
  const Outcome healthy = scene.run(train);
  INFO(healthy.err);
  REQUIRE(healthy.code == 0);
  const std::string png = png_of(smooth_picture(64, 64)), jpeg = jpeg_of(smooth_picture(64, 64));
  const auto refuses = [&](const std::string& what, const std::string& name, const std::string& bytes) {
    scene.refuses_bytes(what, name, bytes, train);
    fs::remove(scene.folder / name);
  };
  refuses("empty", "p/a/bad.png", "");
  refuses("text", "p/a/bad.jpg", "hello");
  refuses("a PNG that is cut short", "p/a/bad.png", png.substr(0, png.size() / 2));
  refuses("a JPEG that is cut in its header", "p/a/bad.jpg", jpeg.substr(0, 100));
  refuses("a damaged PNG", "p/a/bad.png", [&] {
    std::string bytes = png;
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    return bytes;
  }());
  refuses("a PNG that claims 4 billion pixels", "p/a/bad.png",
          png.substr(0, 16) + big_endian(65536) + big_endian(65536) + png.substr(24));
  // Made beforehand: what this process holds while it forks would count as the program's.
  const std::string large_png = png_of(plain_picture(9000, 9000, {1, 2, 3}));
  const std::string large_jpeg = jpeg_of(plain_picture(6000, 6000, {1, 2, 3}), {.quality = 30, .progressive = true});
  refuses("a PNG that unpacks to 240 MB", "p/a/bad.png", large_png);
  refuses("a progressive JPEG of 36 million pixels", "p/a/bad.jpg", large_jpeg);
  fs::create_directory(scene.folder / "p/c");
  scene.refuses("a class without images", train, "p/c");
  fs::remove(scene.folder / "p/c");
  // On request they are left out.
  write_bytes(scene.folder / "p/a/bad.png", png.substr(0, png.size() / 2));
  auto skip = train;
  skip.insert(skip.end(), {"--corrupt", "skip"});
  CHECK(scene.run(skip).code == 0);
  CHECK(scene.count == 9);
}
#endif

}  // namespace tern::testing
