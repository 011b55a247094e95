#include "common/token.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sluice::app {
namespace {

class TempDir {
 public:
  TempDir() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "sluice-settings-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name, const std::string& text, mode_t mode) const {
    const std::string path = path_ + "/" + name;
    std::ofstream(path) << text;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Environment holding(std::string name, std::string value) {
  return
      [=](const std::string& asked) { return asked == name ? std::optional(value) : std::nullopt; };
}

TEST(Token, TheFileCountsBeforeTheVariable) {
  const TempDir dir;
  const Environment variable = holding("SLUICE_TOKEN", "from the variable");
  EXPECT_EQ(read_token("", "SLUICE_TOKEN", variable).value(), "from the variable");
  EXPECT_EQ(read_token("", "SLUICE_OTHER", variable).value(), "");
  const std::string file = dir.file("token", "from the file", 0600);
  EXPECT_EQ(read_token(file, "SLUICE_TOKEN", variable).value(), "from the file");
  EXPECT_FALSE(read_token(dir.path() + "/missing", "SLUICE_TOKEN", variable).has_value());
}

TEST(Token, AVariableThatIsSetAndEmptyIsAMistake) {
  const auto token = read_token("", "SLUICE_TOKEN", holding("SLUICE_TOKEN", ""));
  ASSERT_FALSE(token.has_value());
  EXPECT_NE(token.error().message.find("SLUICE_TOKEN"), std::string::npos);
}

TEST(TokenFile, OnlyAFileThatNobodyElseCanReadIsTaken) {
  const TempDir dir;
  EXPECT_EQ(read_token_file(dir.file("good", "s3cret\n", 0600)).value(), "s3cret");
  EXPECT_EQ(read_token_file(dir.file("stricter", "s3cret", 0400)).value(), "s3cret");
  for (const mode_t mode : {0640, 0604, 0644, 0660, 0700}) {
    const auto token = read_token_file(dir.file("open", "s3cret", mode));
    ASSERT_FALSE(token.has_value()) << std::oct << mode;
    EXPECT_NE(token.error().message.find("chmod 600"), std::string::npos);
    EXPECT_EQ(token.error().message.find("s3cret"), std::string::npos);
  }
}

TEST(TokenFile, EmptyHugeMissingAndStrangeFilesAreRefused) {
  const TempDir dir;
  EXPECT_FALSE(read_token_file(dir.file("empty", "\n", 0600)).has_value());
  EXPECT_FALSE(read_token_file(dir.file("huge", std::string(5000, 'x'), 0600)).has_value());
  EXPECT_FALSE(read_token_file(dir.path() + "/missing").has_value());
  EXPECT_FALSE(read_token_file(dir.path()).has_value());
  const std::string link = dir.path() + "/link";
  std::filesystem::create_symlink(dir.file("target", "s3cret", 0600), link);
  EXPECT_FALSE(read_token_file(link).has_value());
}

}  // namespace
}  // namespace sluice::app
