#include "nets.hpp"

namespace tern::study {

namespace {

template <class Net, class Options>
std::shared_ptr<models::ImageClassifier> make(const Setting& setting) {
  Options options;
  if (setting.image_size > 0) options.image_size = setting.image_size;
  options.width_divisor = setting.width_divisor;
  return std::make_shared<Net>(options, setting.seed);
}

nn::Summary summary_of(const models::ImageClassifier& net) {
  const Device device{"vectorized"};
  return nn::summary(net, {1, 3, net.image_size(), net.image_size()});
}

}  // namespace

const std::vector<std::string>& net_names() {
  static const std::vector<std::string> names{"alexnet", "googlenet", "vgg16", "resnet18"};
  return names;
}

std::shared_ptr<models::ImageClassifier> make_net(const std::string& name, const Setting& setting) {
  if (name == "alexnet") return make<models::AlexNet, models::AlexNetOptions>(setting);
  if (name == "googlenet") return make<models::GoogLeNet, models::GoogLeNetOptions>(setting);
  if (name == "vgg16") return make<models::Vgg16, models::Vgg16Options>(setting);
  if (name == "resnet18") return make<models::ResNet18, models::ResNet18Options>(setting);
  std::string known;
  for (const std::string& net : net_names()) known += " " + net;
  throw Error(message("net \"", name, "\" is unknown; there are", known));
}

NetFacts facts_of(const models::ImageClassifier& net) {
  return {net.describe(), net.parameter_count(), net.image_size(), static_cast<double>(summary_of(net).flops)};
}

double bytes_per_image(const models::ImageClassifier& net) {
  // Each layer's output and its gradient.
  return 2 * static_cast<double>(summary_of(net).output_bytes);
}

data::Dataset load_images(const Setting& setting, std::int64_t size, std::int64_t classes_of_net) {
  std::shared_ptr<const data::ExampleSource> source;
  if (setting.data == "synthetic") {
    source = std::make_shared<data::SyntheticImages>(data::SyntheticImagesOptions{
        .count = setting.images, .size = size, .classes = setting.classes, .seed = setting.seed});
  } else {
    source = std::make_shared<data::Replacing>(std::make_shared<data::ImageFolder>(
        setting.data,
        data::ImageFolderOptions{.size = size, .short_side = size + size / 7, .corrupt = data::OnCorrupt::skip}));
  }
  expects(source->classes() <= classes_of_net, source->name(), ": ", source->classes(), " classes for a network of ",
          classes_of_net);
  // Spread over the classes; a folder with too few images is repeated.
  std::vector<std::int64_t> indices;
  const std::int64_t count = source->size();
  for (std::int64_t i = 0; i < setting.images; ++i)
    indices.push_back(setting.images <= count ? i * count / setting.images : i % count);
  return data::collect(data::Subset(source, indices));
}

std::string describe_images(const Setting& setting) {
  if (setting.data == "synthetic")
    return message(setting.images, " synthetic images of ", setting.classes,
                   setting.classes == 1 ? " class" : " classes");
  const data::ImageFolder folder(setting.data);
  const std::int64_t count = folder.size();
  return message(setting.images, " images of ", folder.classes(), folder.classes() == 1 ? " class" : " classes",
                 " (JPEG)",
                 setting.images > count ? message(", ", setting.images - count, " of them twice") : std::string());
}

}  // namespace tern::study
