#pragma once
// Processes as ranks: mpirun, and which process is which rank.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "process.hpp"

namespace tern::testing {

#ifdef TERN_TEST_MPIRUN
/// `mpirun -n RANKS tern ARGUMENTS...`; `more` are options of mpirun.
inline std::vector<std::string> mpirun_words(int ranks, const std::vector<std::string>& arguments,
                                             const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{TERN_TEST_MPIRUN, "--allow-run-as-root", "--oversubscribe", "-n",
                                 std::to_string(ranks)};
  words.insert(words.end(), more.begin(), more.end());
  words.push_back(program_path);
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

inline Outcome mpirun(int ranks, const std::vector<std::string>& arguments, const std::string& folder) {
  return Process(mpirun_words(ranks, arguments), {.folder = folder}).wait();
}
#endif

/// The process in `folder` that has this word in its environment ("OMPI_COMM_WORLD_RANK=1"); 0: there is none.
inline pid_t process_with(const std::string& folder, const std::string& word) {
  namespace fs = std::filesystem;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator("/proc", gone)) {
    const std::string number = entry.path().filename();
    if (number.find_first_not_of("0123456789") != std::string::npos) continue;
    if (fs::read_symlink(entry.path() / "cwd", gone) != fs::canonical(folder)) continue;
    std::ifstream file(entry.path() / "environ", std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(file), {}};
    if (all.find(word + '\0') != std::string::npos) return std::stoi(number);
  }
  return 0;
}

}  // namespace tern::testing
