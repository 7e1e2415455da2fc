// `tern man`: the manual page, from the table of options.

#include "errors.hpp"
#include "help.hpp"
#include "tern/core/version.hpp"
#include "verbs.hpp"

namespace tern::tool {

namespace {

// Text for troff without requests or escapes.
std::string plain(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n'))
      result += std::string("\\&") + c;
    else
      result += c;
  }
  return result;
}

std::string paragraph(const std::string& tag, const std::string& text) {
  return ".TP\n" + tag + "\n" + plain(text) + "\n";
}

std::string option_entry(const Option& option) {
  std::string tag = "\\fB" + plain("--" + option.name) + "\\fR";
  if (!option.value.empty()) tag += " \\fI" + plain(option.value) + "\\fR";
  for (const std::string& alias : option.aliases) tag += ", \\fB" + plain("--" + alias) + "\\fR";
  std::string text = option_help(option);
  if (option.repeats) text += " (may be repeated)";
  return paragraph(tag, text + ".");
}

std::string verb_section(const Verb& verb) {
  std::string text = ".SS \"tern " + verb.name + "\"\n\\fBtern " + verb.name + "\\fR " + plain(verb.synopsis) +
                     "\n.PP\n" + plain(verb.summary) + "\n" + plain(verb.description) + "\n";
  for (const Option& option : verb.options) text += option_entry(option);
  text += ".PP\nExamples:\n.PP\n.nf\n.RS 4\n";
  for (const std::string& example : verb.examples) text += plain(example) + "\n";
  return text + ".RE\n.fi\n";
}

class Man : public Command {
 public:
  Man() {
    verb_ = {.name = "man",
             .summary = "Prints the manual page.",
             .synopsis = "",
             .description = "In troff form, for man.",
             .examples = {"tern man | man -l -"},
             .hidden = true};
  }
  Verb& verb() override { return verb_; }

  int run(const OptionNames&) override {
    std::string text = message(".TH TERN 1 \"\" \"Tern ", version(), "\" \"User Commands\"\n");
    text += ".SH NAME\ntern \\- trains neural networks, and tests, compares and explains them\n";
    text += ".SH SYNOPSIS\n\\fBtern\\fR \\fIVERB\\fR [\\fIoptions\\fR]\n";
    text +=
        ".SH DESCRIPTION\n" +
        plain(
            "Trains networks on tables (CSV), photographs (a folder per class) or digits (MNIST) in three device "
            "modes: "
            "sequential, vectorized and cuda. Options may be written with hyphens or underscores, and values after a "
            "space or an equals sign.") +
        "\n";
    text += ".SH VERBS\n";
    for (const Entry& entry : commands()) text += verb_section(entry.make()->verb());
    text += ".SH EXIT STATUS\n";
    text +=
        paragraph("0", "all went well") +
        paragraph("1", "the work failed: a loss that is not finite, memory that ran out") +
        paragraph("2", "the command line, or contradictory settings") +
        paragraph("3", "a file or a data set: missing, malformed, or not writable") +
        paragraph("4", "the mode is missing or its device failed to start") +
        paragraph("5", "another rank failed, did not arrive or makes other calls") +
        paragraph("128 + N", "ended by signal N after saving: 130 by Ctrl-C, 143 by SIGTERM, also SIGHUP and SIGQUIT");
    text += ".SH ENVIRONMENT\n";
    text += paragraph("TERN_DATA_DIR", "folder of the MNIST files, if --data names none") +
            paragraph("TERN_PLUGIN_PATH", "folder of libtern_cuda.so") +
            paragraph("OMP_NUM_THREADS", "threads, if --threads names none") +
            paragraph("NO_COLOR", "no colours on the terminal");
    text += ".SH FILES\n";
    text += paragraph("RUN/metrics.jsonl", "one JSON object per event of the training") +
            paragraph("RUN/config.json", "the settings, for --config") +
            paragraph("RUN/model.safetensors", "the trained model") +
            paragraph("RUN/checkpoints/", "where --resume continues") +
            paragraph("RUN/previous/", "the training that was in the folder before");
    print(text);
    return success;
  }

 private:
  Verb verb_;
};

}  // namespace

std::unique_ptr<Command> make_man() { return std::make_unique<Man>(); }

}  // namespace tern::tool
